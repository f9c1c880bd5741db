-- Text that only grows at its end, in a buffer: collected, and written a few times a second.

local config = require('ds4.config')

---@class ds4.Writer
---@field buf integer
---@field levels string[] fold level of each line, as 'foldexpr' wants it
---@field private tail string[] lines not yet written; the first one replaces the buffer's last line
---@field private count integer lines in the buffer
---@field folds_due boolean the folds are not those of the text: Neovim makes none while the user is inserting
---@field private due boolean
local Writer = {}
Writer.__index = Writer

---@param buf integer
---@return ds4.Writer
function Writer.new(buf)
  local writer = setmetatable({ buf = buf }, Writer)
  writer:clear()
  return writer
end

function Writer:clear()
  self.levels = { '0' }
  self.tail = { '' }
  self.count = 1
  self.due, self.folds_due = false, false
  if vim.api.nvim_buf_is_valid(self.buf) then
    self:set(0, -1, { '' })
  end
end

---Number of the last line, 1-based.
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

---@private
---@param first integer
---@param last integer
---@param lines string[]
function Writer:set(first, last, lines)
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
  if not vim.api.nvim_buf_is_valid(self.buf) then
    return
  end
  local following = {}
  for _, window in ipairs(vim.fn.win_findbuf(self.buf)) do
    if vim.api.nvim_win_get_cursor(window)[1] >= self.count then
      following[#following + 1] = window
    end
  end
  self:set(self.count - 1, self.count, self.tail)
  self.folds_due = self.folds_due or vim.api.nvim_get_mode().mode:find('^[iR]') ~= nil
  self.count = self:last()
  self.tail = { self.tail[#self.tail] }
  for _, window in ipairs(following) do
    vim.api.nvim_win_set_cursor(window, { self.count, 0 })
  end
end

return Writer
