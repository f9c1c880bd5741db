-- Text that only grows at its end, in a buffer: collected, and written a few times a second. Below it may be a foot, of
-- what does not hold for long.

local config = require('ds4.config')

---@class ds4.Writer
---@field buf integer
---@field levels string[] fold level of each line, as 'foldexpr' wants it
---@field private tail string[] lines not yet written; the first one replaces the buffer's last line
---@field private count integer lines in the buffer, but for the foot
---@field private foot string[] lines below the text
---@field folds_due boolean the folds are not those of the text: Neovim makes none while the user is inserting
---@field private due boolean
local Writer = {}
Writer.__index = Writer

---@param buf integer
---@return ds4.Writer
function Writer.new(buf)
  local writer = setmetatable({ buf = buf, foot = {} }, Writer)
  writer:clear()
  return writer
end

function Writer:clear()
  self.levels = { '0' }
  self.tail = { '' }
  self.count = 1
  self.due, self.folds_due = false, false
  self:set(0, -1, { '' })
  if #self.foot > 0 then
    self:schedule()
  end
end

---Puts lines below the text, in place of those that are there.
---@param lines string[]
function Writer:below(lines)
  if not vim.deep_equal(self.foot, lines) then
    self.foot = lines
    self:schedule()
  end
end

---Number of the text's last line, 1-based.
---@return integer
function Writer:last()
  return self.count + #self.tail - 1
end

---Gives the last line a fold level.
---@param level string
function Writer:level(level)
  self.levels[self:last()] = level
end

---@return boolean
function Writer:at_line_start()
  return self.tail[#self.tail] == ''
end

---Appends text to the last line; every line that begins in it has the level.
---@param text string
---@param level? string
function Writer:write(text, level)
  level = level or '0'
  local parts = vim.split(text, '\n', { plain = true })
  local first = (parts[1] or ''):gsub('\r', '')
  self.tail[#self.tail] = self.tail[#self.tail] .. first
  for index = 2, #parts do
    self.tail[#self.tail + 1] = (parts[index]:gsub('\r', ''))
    self.levels[self:last()] = level
  end
  self:schedule()
end

---Begins a line of its own, and returns its number.
---@param text string
---@param level? string
---@return integer
function Writer:line(text, level)
  if self:at_line_start() then
    self.levels[self:last()] = level or '0'
    self:write(text, level)
  else
    self:write('\n' .. text, level)
  end
  return self:last() - select(2, text:gsub('\n', '\n'))
end

---Ends the paragraph: what follows comes after an empty line.
function Writer:paragraph()
  if not self:at_line_start() then
    self:write('\n\n')
  elseif self:last() > 1 and self.levels[self:last() - 1] ~= '0' then
    self:write('\n')
  end
end

---Replaces a whole line that was written before.
---@param number integer
---@param text string
function Writer:rewrite(number, text)
  if number < self.count then
    self:set(number - 1, number, { text })
  else
    self.tail[number - self.count + 1] = text
    self:schedule()
  end
end

---The user may have wiped the buffer, or unloaded it, also to load it again, without its text. What is written then is
---nowhere, until the writer is cleared.
---@private
---@param first integer
---@param last integer
---@param lines string[]
function Writer:set(first, last, lines)
  if not vim.api.nvim_buf_is_loaded(self.buf) or vim.api.nvim_buf_line_count(self.buf) < math.max(first, last) then
    return
  end
  vim.bo[self.buf].modifiable = true
  vim.api.nvim_buf_set_lines(self.buf, first, last, true, lines)
  vim.bo[self.buf].modifiable = false
  vim.bo[self.buf].modified = false
end

---@return boolean
function Writer:pending()
  return self.due
end

---@private
function Writer:schedule()
  if self.due then
    return
  end
  self.due = true
  vim.defer_fn(function()
    if self.due then
      self:flush()
    end
  end, config.values.redraw)
end

---Writes what was collected. Windows that were at the end stay at the end.
function Writer:flush()
  self.due = false
  local following = {}
  for _, window in ipairs(vim.fn.win_findbuf(self.buf)) do
    if vim.api.nvim_win_get_cursor(window)[1] >= self.count then
      following[#following + 1] = window
    end
  end
  self:set(self.count - 1, -1, vim.list_extend(vim.list_slice(self.tail), self.foot))
  self.folds_due = self.folds_due or vim.api.nvim_get_mode().mode:find('^[iR]') ~= nil
  self.count = self:last()
  self.tail = { self.tail[#self.tail] }
  for _, window in ipairs(following) do
    vim.api.nvim_win_set_cursor(window, { vim.api.nvim_buf_line_count(self.buf), 0 })
  end
end

return Writer
