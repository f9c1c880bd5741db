-- Checks the annotations: nvim --clean --headless -l types.lua EMMYLUA_LS
-- Opens every file of the plugin in the language server, which reads `.luarc.json`, and fails on what it has to say.

local plugin = vim.fs.dirname(vim.fs.dirname(vim.fs.abspath(debug.getinfo(1, 'S').source:sub(2))))
local server = assert(arg[1], 'usage: types.lua EMMYLUA_LS')
local PATIENCE = 120000

vim.env.VIMRUNTIME = vim.env.VIMRUNTIME -- for the server's environment
local id = assert(vim.lsp.start({
  name = 'types',
  cmd = { server },
  root_dir = plugin,
}, { attach = false }))
local client = assert(vim.lsp.get_client_by_id(id))
assert(
  vim.wait(PATIENCE, function()
    return client.initialized and vim.tbl_isempty(client.progress.pending)
  end, 50),
  'the language server did not start'
)

local problems = 0
for _, path in ipairs(vim.fn.sort(vim.fn.globpath(plugin, '{lua,plugin,lsp}/**/*.lua', true, true))) do
  local buf = vim.fn.bufadd(path)
  vim.fn.bufload(buf)
  vim.bo[buf].filetype = 'lua'
  vim.lsp.buf_attach_client(buf, id)
  local answer = client:request_sync('textDocument/diagnostic', {
    textDocument = { uri = vim.uri_from_bufnr(buf) },
  }, PATIENCE, buf)
  assert(answer and answer.result, 'no diagnostics for ' .. path)
  for _, item in ipairs(answer.result.items) do
    problems = problems + 1
    local name = path:sub(#plugin + 2)
    io.stderr:write(('%s:%d: %s [%s]\n'):format(name, item.range.start.line + 1, item.message, item.code or '?'))
  end
end
client:stop(true)
print(('types: %d problems'):format(problems))
vim.cmd(problems == 0 and 'qa!' or 'cq')
