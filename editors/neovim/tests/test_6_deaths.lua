-- What the user sees when the engine dies: three lines, with one thing to do.

local test = ...

local Editor = require('editor')

test('a death of the engine is three lines of the session, and no message besides', function()
  local doomed = Editor.new()
  doomed:start({
    env = { DS4_MODEL = vim.env.DS4_TEST_FAST_MODEL or vim.env.DS4_MODEL, DS4_LSP_FAULT = 'decode:ill' },
    setup = { open = true },
    settings = { model = { contextSize = 8192 } },
    replies = { 'Never.' },
  })
  doomed:prompt('hello')
  local result = doomed:result()
  assert(result.stopReason == 'error', vim.inspect(result))
  local noted = vim
    .iter(vim.split(doomed:session(), '\n'))
    :filter(function(line)
      return vim.startswith(line, '> ')
    end)
    :totable()
  local last = vim.list_slice(noted, #noted - 2)
  assert(
    last[1]:find('^> %*%*Error:%*%* The engine was ended by an illegal instruction %(SIGILL%)'),
    vim.inspect(noted)
  )
  assert(last[2]:find('install LLAMA_CPP_NATIVE=off$'), vim.inspect(noted))
  assert(last[3]:find('^> The next prompt starts a new engine%. Its log: '), vim.inspect(noted))
  assert(#vim.tbl_filter(function(line)
    return line:find('SIGILL', 1, true) ~= nil
  end, noted) == 1, vim.inspect(noted))
  local messages = doomed:lua("return vim.fn.execute('messages')")
  assert(not messages:find('SIGILL', 1, true), messages)
  doomed:close()
end)
