-- `ds4:/session/…` documents of the server: a transcript, or a checkpoint beside what it stands for.

local client = require('ds4.client')

local M = {}

---@param buf integer
---@param text string
local function fill(buf, text)
  vim.bo[buf].modifiable = true
  vim.api.nvim_buf_set_lines(buf, 0, -1, true, vim.split(text, '\n', { plain = true }))
  vim.bo[buf].modifiable = false
  vim.bo[buf].modified = false
end

---@param buf integer
---@param uri string
function M.read(buf, uri)
  vim.bo[buf].buftype = 'nofile'
  vim.bo[buf].swapfile = false
  vim.bo[buf].filetype = 'markdown'
  client.ensure(function(running, problem)
    if not running then
      return fill(buf, problem and problem.message or '')
    end
    running:request('workspace/textDocumentContent', { uri = uri }, function(failure, result)
      if vim.api.nvim_buf_is_valid(buf) then
        fill(buf, failure and failure.message or result.text)
      end
    end)
  end)
end

return M
