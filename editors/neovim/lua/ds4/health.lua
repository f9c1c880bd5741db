-- `:checkhealth ds4`

local M = {}

local health = vim.health

---@param command string[]
local function check_server(command)
  local ok, process = pcall(vim.system, vim.list_extend(vim.deepcopy(command), { '--version' }), { text = true })
  local result = ok and process:wait(10000) or nil
  if result and result.code == 0 then
    health.ok(('`%s`: %s'):format(table.concat(command, ' '), vim.trim(result.stdout or '')))
  else
    local why = result and vim.trim(result.stderr or '') or 'it does not start'
    health.error(('`%s --version` fails: %s'):format(table.concat(command, ' '), why), {
      'Run the command in a terminal to see what it says',
    })
  end
end

local function check_model()
  local settings = vim.tbl_get(require('ds4.client').resolved(), 'settings', 'ds4', 'model', 'path')
  local path = vim.env.DS4_MODEL or settings
  if not path then
    health.warn('no model is set', {
      "require('ds4').setup({ settings = { model = { path = '/path/to/model.gguf' } } })",
      'or set the environment variable DS4_MODEL; `ds4-lsp model list` shows models to fetch',
    })
  elseif not vim.uv.fs_stat(vim.fs.normalize(path)) then
    health.error(('the model file %s does not exist'):format(path), { '`ds4-lsp model list` shows what is here' })
  else
    health.ok('model: ' .. path)
  end
end

local function check_running()
  local client = require('ds4.client').get()
  if not client then
    health.info('the server is not running: it starts with the first use')
    return
  end
  local answer = client:request_sync('workspace/executeCommand', {
    command = 'ds4.status',
    arguments = { vim.empty_dict() },
  }, 3000)
  local status = answer and answer.result
  if not status then
    health.error('the server does not answer', { ':DS4 log', 'vim.lsp.get_clients({ name = "ds4" })[1]:stop(true)' })
    return
  end
  health.ok(('the server runs in %s: %s'):format(client.root_dir or '-', status.state))
  if status.error then
    health.error(status.error)
  end
end

function M.check()
  health.start('ds4: editor')
  if vim.fn.has('nvim-0.11') == 1 then
    health.ok(vim.fn.execute('version'):match('NVIM [^\n]*') or 'Neovim')
  else
    health.error('Neovim 0.11 or later is needed')
  end
  if pcall(vim.treesitter.language.inspect, 'markdown') then
    health.ok('tree-sitter parser for markdown')
  else
    health.info('no tree-sitter parser for markdown: sessions are highlighted by syntax rules')
  end
  health.start('ds4: server')
  local problem = require('ds4.client').missing()
  if problem then
    health.error(problem)
    return
  end
  local command = require('ds4.client').resolved().cmd
  if type(command) == 'table' then
    check_server(command)
  end
  check_model()
  check_running()
  health.info('`ds4-lsp doctor` checks the server, the model and the memory more closely')
end

return M
