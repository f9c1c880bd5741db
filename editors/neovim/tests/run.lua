-- nvim --clean --headless -l tests/run.lua [FILE]
-- Runs tests/test_*.lua, or those whose name has FILE in it;
-- exits with 1 when one fails. DS4_TEST_PYTHON and DS4_MODEL name a Python with ds4_lsp and a
-- small model; DS4_TEST_FAST_MODEL one that need not make sense, for what takes many tokens.

local here = vim.fs.dirname(vim.fs.abspath(debug.getinfo(1, 'S').source:sub(2)))
package.path = here .. '/?.lua;' .. package.path
vim.opt.rtp:prepend(vim.fs.dirname(here))
for _, name in ipairs({ 'DS4_TEST_PYTHON', 'DS4_MODEL' }) do
  assert(vim.env[name], name .. ' is not set')
end

local pattern = arg[1] or ''
local passed, failed = 0, 0

---@param name string
---@param body fun()
local function test(name, body)
  local begun = vim.uv.hrtime()
  local ok, problem = xpcall(body, debug.traceback)
  local seconds = (vim.uv.hrtime() - begun) / 1e9
  passed, failed = passed + (ok and 1 or 0), failed + (ok and 0 or 1)
  local outcome = ok and 'ok  ' or 'FAIL'
  io.stdout:write(('%s %s (%.1f s)%s\n'):format(outcome, name, seconds, ok and '' or '\n' .. problem))
  io.stdout:flush()
end

for _, path in ipairs(vim.fn.sort(vim.fn.glob(here .. '/test_*.lua', true, true))) do
  if vim.fs.basename(path):find(pattern, 1, true) then
    assert(loadfile(path))(test)
  end
end
io.stdout:write(('%d passed, %d failed\n'):format(passed, failed))
vim.cmd(failed == 0 and passed > 0 and 'qa!' or 'cq')
