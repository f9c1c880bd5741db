-- From a line of the session to what it is about.

local M = {}

---Goes to a file's line or to a document of the server, in the window that was current before.
---@param target ds4.Target
function M.to(target)
  local window = vim.fn.win_getid(vim.fn.winnr('#'))
  if window == 0 or vim.bo[vim.api.nvim_win_get_buf(window)].filetype == 'ds4' then
    window = 0
    for _, each in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
      if vim.bo[vim.api.nvim_win_get_buf(each)].buftype == '' then
        window = each
      end
    end
  end
  if window ~= 0 then
    vim.api.nvim_set_current_win(window)
  else
    vim.cmd('leftabove vnew')
  end
  local name = vim.startswith(target.uri, 'ds4:') and target.uri or vim.uri_to_fname(target.uri)
  -- Not `:edit`, which reads a file again that is shown already.
  local buf = vim.fn.bufadd(name)
  vim.bo[buf].buflisted = true
  vim.api.nvim_set_current_buf(buf)
  pcall(vim.api.nvim_win_set_cursor, 0, { target.line, 0 })
end

return M
