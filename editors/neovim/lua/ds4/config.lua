-- What the user can set, and its defaults.

local M = {}

---@class ds4.Keys
---@field send? string|false send the prompt, in Normal mode
---@field send_insert? string|false send the prompt, in Insert mode
---@field stop? string|false stop what runs: a compaction alone, where one runs
---@field jump? string|false go to the file, edit or checkpoint of the line
---@field close? string|false close the session's windows, in Normal mode

---@class ds4.Config
---@field cmd string[] command that starts the server
---@field settings table the server's `ds4` settings section
---@field autostart boolean start the server with the first file instead of with the first use
---@field root_markers string[] what a workspace folder has in it
---@field open boolean show the session when a prompt is sent
---@field position 'right'|'left'|'above'|'below' where the session is shown
---@field size number of the session's window: lines or columns; a part of the screen when below 1
---@field prompt_height integer lines of the prompt's window
---@field turns integer turns of the history shown when a session is opened
---@field progress 'notify'|'statusline' where progress is shown
---@field redraw integer milliseconds between two updates of the session's text
---@field keys ds4.Keys keys in the session's two buffers
local defaults = {
  cmd = { 'ds4-lsp' },
  settings = {},
  autostart = false,
  root_markers = { '.git', '.hg', 'pyproject.toml', 'package.json', 'Cargo.toml', 'go.mod' },
  open = true,
  position = 'right',
  size = 0.4,
  prompt_height = 4,
  turns = 3,
  progress = 'notify',
  redraw = 50,
  keys = {
    send = '<CR>',
    send_insert = '<C-s>',
    stop = '<C-c>',
    jump = '<CR>',
    close = 'q',
  },
}

---@type ds4.Config
M.values = vim.deepcopy(defaults)

local positions = { right = true, left = true, above = true, below = true }
local progress = { notify = true, statusline = true }

---Replaces the values in force. Raises an error that names the option for one that is unknown or of a wrong type.
---@param options? table
---@return ds4.Config
function M.set(options)
  options = options or {}
  for key, value in pairs(options) do
    if defaults[key] == nil then
      error(('ds4: there is no option %q'):format(key), 0)
    end
    vim.validate(key, value, type(defaults[key]))
  end
  for key in pairs(options.keys or {}) do
    if defaults.keys[key] == nil then
      error(('ds4: there is no option %q'):format('keys.' .. key), 0)
    end
  end
  local values = vim.tbl_extend('force', vim.deepcopy(defaults), options) --[[@as ds4.Config]]
  values.keys = vim.tbl_extend('force', defaults.keys, options.keys or {})
  if not positions[values.position] then
    error('ds4: position is one of right, left, above, below', 0)
  end
  if not progress[values.progress] then
    error('ds4: progress is one of notify, statusline', 0)
  end
  M.values = values
  return values
end

return M
