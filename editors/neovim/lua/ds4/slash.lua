-- Which prompts the server takes for commands: they run no turn, and are answered with text. Its rule, once more.

local M = {}

---@class ds4.Slash
---@field name string
---@field rest string what follows the name

---The server's words; a test compares them.
local WORDS = {
  'compact',
  'new',
  'list',
  'switch',
  'history',
  'fork',
  'delete',
  'export',
  'save',
  'undo',
  'stop',
  'queue',
  'unqueue',
  'requeue',
  'send',
  'status',
  'jobs',
  'kill',
  'load',
  'unload',
  'help',
}

---The command that a text is meant as; nil for a prompt. What the server refuses of these runs no turn either.
---@param text string
---@return ds4.Slash?
function M.parse(text)
  local name, rest = text:match('^/(%a[%a-]*)(.*)$')
  if not name or not rest or not (rest == '' or rest:match('^%s')) then
    return nil
  end
  if not vim.list_contains(WORDS, name) and vim.trim(text):find('\n') then
    return nil
  end
  return { name = name, rest = vim.trim(rest) }
end

---For 'omnifunc' in the prompt's buffer: completes the slash word that the prompt begins with.
---@param findstart integer
---@param base string
---@return integer|string[]
function M.omnifunc(findstart, base)
  if findstart == 1 then
    local row, column = unpack(vim.api.nvim_win_get_cursor(0))
    local before = vim.api.nvim_get_current_line():sub(1, column)
    return row == 1 and before:match('^/[%a-]*$') and 0 or -3
  end
  return vim.tbl_filter(
    function(word)
      return vim.startswith(word, base)
    end,
    vim.tbl_map(function(word)
      return '/' .. word
    end, WORDS)
  )
end

return M
