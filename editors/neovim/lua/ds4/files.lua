-- Files as buffers: opened for an edit, changed in one undo step, saved, and closed again.

local text = require('ds4.text')

local M = {}

---@class ds4.File
---@field buf integer
---@field path string
---@field was_loaded boolean the user has it open
---@field existed boolean the buffer was known before

local seen = {} ---@type table<integer, string>

---Files that were to be closed while the command-line window was open, by buffer.
---@type table<integer, { file: ds4.File, stamp: string }>
local lingering = {}

---What changes when somebody else writes the file.
---@param path string
---@return string
local function stamp(path)
  local stat = vim.uv.fs_stat(path)
  return stat and ('%d.%d.%d'):format(stat.mtime.sec, stat.mtime.nsec, stat.size) or 'none'
end

---Notes that buffer and file agree.
---@param buf integer
function M.agree(buf)
  seen[buf] = stamp(vim.api.nvim_buf_get_name(buf))
end

---@param buf integer
function M.forget(buf)
  seen[buf] = nil
end

---@param uri string
---@param keep boolean it stays open, as if the user had opened it
---@return ds4.File? file
---@return string? reason
function M.open(uri, keep)
  local path = vim.uri_to_fname(uri)
  local existed = vim.fn.bufexists(path) == 1
  local buf = vim.fn.bufadd(path)
  local was_loaded = vim.api.nvim_buf_is_loaded(buf)
  local file = { buf = buf, path = path, was_loaded = was_loaded or keep, existed = existed }
  local left = lingering[buf]
  if was_loaded and left then
    if left.stamp ~= stamp(path) then
      return nil, 'the file changed on disk while the command-line window was open'
    end
    lingering[buf] = nil
    file.was_loaded, file.existed = keep, left.file.existed
    vim.bo[buf].buflisted = vim.bo[buf].buflisted or keep
    return file
  elseif was_loaded then
    return file
  end
  if keep then
    vim.bo[buf].buflisted = true
    vim.fn.bufload(buf)
    return file
  end
  -- A file that is not open is only passing through: no swap file, no autocommands.
  vim.bo[buf].swapfile = false
  local ok, problem = pcall(vim.api.nvim_command, ('noautocmd silent call bufload(%d)'):format(buf))
  if not ok then
    M.close(file)
    return nil, ('the file cannot be opened: %s'):format(problem)
  end
  return file
end

---Closes what was left open, as soon as the command-line window is closed.
local function close_later()
  vim.api.nvim_create_autocmd('CmdwinLeave', {
    group = vim.api.nvim_create_augroup('ds4.files', { clear = true }),
    once = true,
    callback = vim.schedule_wrap(function()
      local files = vim.tbl_values(lingering)
      lingering = {}
      for _, left in ipairs(files) do
        M.close(left.file)
      end
    end),
  })
end

---Closes a file that the user does not have open, with its changes. One that they look at by now is theirs.
---@param file ds4.File
function M.close(file)
  if file.was_loaded or not vim.api.nvim_buf_is_valid(file.buf) then
    return
  end
  if #vim.fn.win_findbuf(file.buf) > 0 then
    vim.bo[file.buf].buflisted = true
    return
  end
  if vim.fn.getcmdwintype() ~= '' then
    -- Neovim gives up no buffer now.
    lingering[file.buf] = { file = file, stamp = stamp(file.path) }
    return close_later()
  end
  vim.cmd(('noautocmd silent %s! %d'):format(file.existed and 'bunload' or 'bwipeout', file.buf))
end

---After an edit: what was opened for it is closed when it is saved, and is the user's when it is not.
---@param file ds4.File
---@param saved boolean
function M.done(file, saved)
  if saved then
    M.close(file)
  elseif not file.was_loaded then
    vim.bo[file.buf].buflisted = true
  end
end

---Why the buffer cannot have this text; nil when it can.
---@param file ds4.File
---@param after string
---@return string?
function M.refusal(file, after)
  for _, line in ipairs((text.split(after, text.line_ending(file.buf)))) do
    if line:find('\n', 1, true) then
      return 'the lines of the edit do not end as those of the file'
    end
  end
  return nil
end

---Ends the undo step that is being made; the next change begins another.
---@param buf integer
local function break_undo(buf)
  vim.bo[buf].undolevels = vim.bo[buf].undolevels
end

---Changes the buffer in an undo step of its own, also while the user is typing.
---@param buf integer
---@param change fun()
local function as_undo_step(buf, change)
  break_undo(buf)
  change()
  break_undo(buf)
  local mode = vim.api.nvim_get_mode().mode
  if buf == vim.api.nvim_get_current_buf() and (mode == 'i' or mode == 'R') then
    -- Insert mode saves a line for undo when it begins: what is typed next has to be saved anew.
    vim.api.nvim_feedkeys(vim.keycode('<C-g>u'), 'ni', false)
  end
end

---@param file ds4.File
---@param after string
function M.set_text(file, after)
  local buf = file.buf
  local lines, complete = text.split(after, text.line_ending(buf))
  local ends_otherwise = complete ~= vim.bo[buf].endofline
  as_undo_step(buf, function()
    text.replace_lines(buf, lines)
    vim.bo[buf].endofline = complete
  end)
  -- Neovim tells of changed lines only. Of a final newline that came or went, the server hears by opening the file
  -- again; not before the change, since a change without any client ends Neovim's watching of the buffer.
  for _, client in ipairs(ends_otherwise and vim.lsp.get_clients({ bufnr = buf, name = 'ds4' }) or {}) do
    vim.lsp.buf_detach_client(buf, client.id)
    vim.lsp.buf_attach_client(buf, client.id)
  end
end

---@param file ds4.File
---@param create boolean
---@return boolean saved
---@return string? reason
function M.save(file, create)
  local buf = file.buf
  if file.was_loaded and seen[buf] and seen[buf] ~= stamp(file.path) then
    return false, 'the file has changed on disk'
  end
  if create then
    vim.fn.mkdir(vim.fs.dirname(file.path), 'p')
  end
  local fix = vim.bo[buf].fixendofline
  vim.bo[buf].fixendofline = false
  local ok, problem = pcall(vim.api.nvim_buf_call, buf, function()
    vim.cmd((file.was_loaded and '' or 'noautocmd ') .. 'lockmarks silent write')
  end)
  if vim.api.nvim_buf_is_valid(buf) then
    vim.bo[buf].fixendofline = fix
  end
  return ok, not ok and tostring(problem) or nil
end

return M
