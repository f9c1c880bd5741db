-- A buffer's text as one string, exactly as the server has it, and changes of it.

local M = {}

local endings = { unix = '\n', dos = '\r\n', mac = '\r' }

---@param buf integer
---@return string
function M.line_ending(buf)
  return endings[vim.bo[buf].fileformat] or '\n'
end

---@param buf integer
---@return string
function M.of(buf)
  local lines = vim.api.nvim_buf_get_lines(buf, 0, -1, true)
  if #lines == 1 and lines[1] == '' and not M.is_synced(buf) then
    -- Neovim has no buffer without lines: to the server an empty file is open with one, and on disk it has none.
    return ''
  end
  local ending = M.line_ending(buf)
  return table.concat(lines, ending) .. (vim.bo[buf].endofline and ending or '')
end

---Whether a server is told of the buffer's changes.
---@param buf integer
---@return boolean
function M.is_synced(buf)
  return #vim.lsp.get_clients({ bufnr = buf, name = 'ds4' }) > 0
end

---Lines without their endings, and whether the last one has one.
---@param text string
---@param ending string
---@return string[] lines
---@return boolean complete
function M.split(text, ending)
  local complete = text == '' or vim.endswith(text, ending)
  if complete and text ~= '' then
    text = text:sub(1, -#ending - 1)
  end
  return vim.split(text, ending, { plain = true }), complete
end

---Starts of the text's lines, 0-based byte offsets. A line ends at CRLF, LF or CR.
---@param text string
---@return integer[]
local function line_starts(text)
  local starts, from = { 0 }, 1
  local found = text:find('[\r\n]', from)
  while found do
    from = found + (text:sub(found, found + 1) == '\r\n' and 2 or 1)
    starts[#starts + 1] = from - 1
    found = text:find('[\r\n]', from)
  end
  return starts
end

---@class ds4.Position
---@field line integer
---@field character integer

---@class ds4.TextEdit
---@field range { start: ds4.Position, ["end"]: ds4.Position }
---@field newText string
---@field annotationId? string

---The text after the edits, or nil and the reason why they do not fit it.
---@param text string
---@param edits ds4.TextEdit[]
---@param encoding 'utf-8'|'utf-16'|'utf-32'
---@return string? text
---@return string? reason
function M.edited(text, edits, encoding)
  local starts = line_starts(text)

  ---@param position ds4.Position
  ---@return integer?
  local function offset(position)
    local start = starts[position.line + 1]
    if not start then
      return nil
    end
    local line = text:sub(start + 1, starts[position.line + 2] or #text):gsub('[\r\n]+$', '')
    if position.character > vim.str_utfindex(line, encoding) then
      return nil
    end
    return start + vim.str_byteindex(line, encoding, position.character)
  end

  ---@type { from: integer, to: integer, new: string }[]
  local spans = {}
  for _, edit in ipairs(edits) do
    local from, to = offset(edit.range.start), offset(edit.range['end'])
    if not from or not to or to < from then
      return nil, 'a range of the edit is outside the document'
    end
    spans[#spans + 1] = { from = from, to = to, new = edit.newText }
  end
  table.sort(spans, function(a, b)
    return a.from < b.from
  end)
  local pieces, at = {}, 0
  for _, span in ipairs(spans) do
    if span.from < at then
      return nil, 'the ranges of the edit overlap'
    end
    pieces[#pieces + 1] = text:sub(at + 1, span.from)
    pieces[#pieces + 1] = span.new
    at = span.to
  end
  pieces[#pieces + 1] = text:sub(at + 1)
  return table.concat(pieces), nil
end

---The longest common prefix of two strings that does not end inside a character, in bytes.
---@param a string
---@param b string
---@return integer
local function common_prefix(a, b)
  local most, length = math.min(#a, #b), 0
  while length < most and a:byte(length + 1) == b:byte(length + 1) do
    length = length + 1
  end
  while length > 0 and length < #a and a:byte(length + 1) >= 0x80 and a:byte(length + 1) < 0xC0 do
    length = length - 1
  end
  return length
end

---Gives the buffer other lines, and touches only what differs, so that cursors, marks and folds elsewhere stay.
---@param buf integer
---@param new string[]
function M.replace_lines(buf, new)
  local old = vim.api.nvim_buf_get_lines(buf, 0, -1, true)
  local first, most = 0, math.min(#old, #new)
  while first < most and old[first + 1] == new[first + 1] do
    first = first + 1
  end
  local last = 0
  while last < most - first and old[#old - last] == new[#new - last] do
    last = last + 1
  end
  local middle = vim.list_slice(new, first + 1, #new - last)
  local stop = #old - last
  if first == stop and #middle == 0 then
    return
  end
  local was, is = old[stop], middle[1]
  if stop - first == 1 and #middle == 1 and was and is then
    local prefix = common_prefix(was, is)
    vim.api.nvim_buf_set_text(buf, first, prefix, first, #was, { is:sub(prefix + 1) })
  else
    vim.api.nvim_buf_set_lines(buf, first, stop, true, middle)
  end
end

return M
