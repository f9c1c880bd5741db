-- What a session's events are called in a line.

local M = {}

---@param text string
---@return string
function M.one_line(text)
  return (text:gsub('%s*\n.*$', ' …'))
end

---What a call is about, from its arguments.
---@param arguments table
---@return string
function M.about(arguments)
  local subject = arguments.command or arguments.path or arguments.pattern or arguments.query or arguments.job
  if not subject then
    return ''
  end
  local first = arguments.line or arguments.start_line
  local place = first and (':%s'):format(first) or ''
  return ' `' .. M.one_line(tostring(subject)) .. place .. '`'
end

---How a turn ended: why, how much was said, how fast, and how full the context is.
---@param reason string
---@param told? table the `usage` event of the turn
---@return string
function M.ending(reason, told)
  local words = { reason }
  if told then
    local usage, context = told.usage, told.context
    words[#words + 1] = ('%d tokens'):format(usage.completionTokens)
    if usage.completionSeconds > 0 then
      words[#words + 1] = ('%.1f tok/s'):format(usage.completionTokens / usage.completionSeconds)
    end
    if context.size > 0 then
      words[#words + 1] = ('context %d %%'):format(math.floor(100 * context.used / context.size + 0.5))
    end
  end
  return table.concat(words, ' · ')
end

return M
