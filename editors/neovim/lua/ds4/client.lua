-- The one language client: its start, and requests to it. What it is configured with is in `ds4.server`.

local config = require('ds4.config')

local M = {}

---@class ds4.Error
---@field message string
---@field code? string|integer

---@alias ds4.Callback fun(error?: ds4.Error, result?: table)

local waiting = {} ---@type fun(client?: vim.lsp.Client, error?: ds4.Error)[]
local unanswered = {} ---@type table<integer, ds4.Callback>
local request_count = 0

---The running client.
---@return vim.lsp.Client?
function M.get()
  for _, client in ipairs(vim.lsp.get_clients({ name = 'ds4' })) do
    if not client:is_stopped() then
      return client
    end
  end
  return nil
end

---The server's configuration: `lsp/ds4.lua`, and what the user has put on top of it.
---@return vim.lsp.Config
function M.resolved()
  local configs = vim.lsp.config --[[@as table<string, vim.lsp.Config>]]
  return configs['ds4']
end

---The workspace folder: the running server's, else the one of the buffer's file or of the current directory.
---@param buf? integer
---@return string
function M.root(buf)
  local running = M.get()
  if running and running.root_dir then
    return running.root_dir
  end
  local source = buf and vim.api.nvim_buf_get_name(buf) or ''
  local markers = M.resolved().root_markers or config.values.root_markers
  return vim.fs.root(source ~= '' and source or vim.fn.getcwd(), markers) or vim.fn.getcwd()
end

---Why the server cannot be started; nil when it can.
---@return string?
function M.missing()
  local command = M.resolved().cmd
  if type(command) ~= 'table' or vim.fn.executable(command[1] or '') == 1 then
    return nil
  end
  return ('The server %q is not installed or not on PATH. Install ds4-lsp, or name it: '):format(tostring(command[1]))
    .. "require('ds4').setup({ cmd = { '/path/to/ds4-lsp' } })"
end

---Tells those who wait for the server that it is there, or why it is not.
---@param client? vim.lsp.Client
---@param problem? ds4.Error
function M.wake(client, problem)
  local callbacks = waiting
  waiting = {}
  for _, callback in ipairs(callbacks) do
    callback(client, problem)
  end
end

---Answers every request that the server did not get to.
---@param problem ds4.Error
function M.ended(problem)
  M.wake(nil, problem)
  local callbacks = vim.tbl_values(unanswered)
  unanswered = {}
  for _, callback in ipairs(callbacks) do
    callback(problem)
  end
end

---Attaches the client to every file, now and later; files without a file type included.
function M.enable()
  if not vim.lsp.is_enabled('ds4') then
    vim.lsp.enable('ds4')
  end
  vim.api.nvim_create_autocmd({ 'BufReadPost', 'BufNewFile' }, {
    group = vim.api.nvim_create_augroup('ds4.attach', { clear = true }),
    callback = function(event)
      vim.schedule(function()
        M.attach(event.buf)
      end)
    end,
  })
end

---Whether a buffer is a file, which is what the server knows as a document.
---@param buf integer
---@return boolean
function M.is_document(buf)
  if not vim.api.nvim_buf_is_loaded(buf) or vim.bo[buf].buftype ~= '' then
    return false
  end
  local name = vim.api.nvim_buf_get_name(buf)
  return name ~= '' and not name:match('^%a[%w+.-]+:')
end

---@param buf integer
function M.attach(buf)
  local client = M.get()
  if client and M.is_document(buf) then
    vim.lsp.buf_attach_client(buf, client.id)
  end
end

---Gives the initialised client, and starts it where there is none.
---@param callback fun(client?: vim.lsp.Client, error?: ds4.Error)
function M.ensure(callback)
  local running = M.get()
  if running and running.initialized then
    return callback(running)
  end
  local problem = M.missing()
  if problem then
    return callback(nil, { message = problem })
  end
  waiting[#waiting + 1] = callback
  if running then
    return
  end
  local resolved = vim.deepcopy(M.resolved()) --[[@as vim.lsp.ClientConfig]]
  resolved.root_dir = M.root(vim.api.nvim_get_current_buf())
  local id = vim.lsp.start(resolved, { attach = false, reuse_client = M.resolved().reuse_client })
  if not id then
    return M.wake(nil, { message = 'The server could not be started. :checkhealth ds4 may say why.' })
  end
  M.enable()
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do
    M.attach(buf)
  end
end

---@param problem? ds4.Error
local function tell_failure(problem)
  if problem then
    vim.notify('ds4: ' .. problem.message, vim.log.levels.ERROR)
  end
end

---Runs a server command; the callback gets its result, or the error of the server or of its end.
---@param command string
---@param arguments? table
---@param callback? ds4.Callback
---@param token? string work-done token
function M.request(command, arguments, callback, token)
  callback = (callback or tell_failure) --[[@as ds4.Callback]]
  M.ensure(function(client, problem)
    if not client then
      return callback(problem)
    end
    request_count = request_count + 1
    local number = request_count
    unanswered[number] = callback
    local params = { command = command, arguments = { arguments or vim.empty_dict() }, workDoneToken = token }
    if next(params.arguments[1]) == nil then
      params.arguments[1] = vim.empty_dict()
    end
    client:request('workspace/executeCommand', params, function(failure, result)
      if not unanswered[number] then
        return
      end
      unanswered[number] = nil
      local code = failure and type(failure.data) == 'table' and failure.data.code or failure and failure.code
      callback(failure and { message = failure.message, code = code }, result)
    end)
  end)
end

return M
