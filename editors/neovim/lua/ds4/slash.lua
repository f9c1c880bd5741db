-- Which prompts the server takes for commands: they run no turn, and are answered with text. Its rule, once more.

local M = {}

---@class ds4.Slash
---@field name string
---@field rest string what follows the name

local NAMES = { compact = true, new = true, list = true, switch = true, history = true, save = true, help = true }
local WITHOUT_REST = { list = true, save = true, help = true }
local LONGEST_COUNT = 6

---The command that a text is; nil for a prompt, which may begin with a slash, too.
---@param text string
---@return ds4.Slash?
function M.parse(text)
  local name, rest = vim.trim(text):match('^/(%l+)(.*)$')
  if not name or not rest or not NAMES[name] or not (rest == '' or vim.startswith(rest, ' ')) then
    return nil
  end
  rest = vim.trim(rest)
  if rest ~= '' and (WITHOUT_REST[name] or name == 'history' and (rest:find('%D') or #rest > LONGEST_COUNT)) then
    return nil
  end
  return { name = name, rest = rest }
end

return M
