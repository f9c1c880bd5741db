local test = ...

local Editor = require('editor')
local crc32 = require('ds4.crc32')
local call = Editor.call

local CALC = 'def add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n\n\nnotes = ""\n'
local TYPED = (CALC:gsub('""', '"typed"'))

local function eq(got, wanted)
  assert(vim.deep_equal(got, wanted), ('%s is not %s'):format(vim.inspect(got), vim.inspect(wanted)))
end

local function has(text, part)
  assert(text:find(part, 1, true), ('%q is not in:\n%s'):format(part, text))
end

---One editor for the tests of this file: they tell one story, and the script is what its model says.
local editor = Editor.new()
editor:file('calc.py', CALC)
editor:file('crlf.txt', 'one\r\ntwo')
editor:file('open.txt', 'one\ntwo\n')
editor:start({
  setup = { open = true },
  replies = {
    'Hello **there**.',
    call('read', { path = 'calc.py' }),
    call('edit', { path = 'calc.py', file_tag = crc32(TYPED), line = 2, new = '    return a + b' }),
    'Fixed.',
    call('bash', { command = 'touch ran\necho yes' }),
    'No.',
    { purpose = 'turn', text = ('word '):rep(400), delay_ms = 30 },
  },
})
editor:command('edit calc.py')

test('nothing is loaded and no server runs before the first use', function()
  eq(editor:lua('return #vim.lsp.get_clients()'), 0)
  eq(editor:lua("return vim.fn.exists(':DS4')"), 2)
  eq(editor:lua("return require('ds4').statusline()"), '')
end)

test('a prompt opens the session, streams its answer there, and ends', function()
  editor:command('DS4 prompt hello')
  editor:wait("_G.seen('turn.end')")
  local shown = editor:session()
  has(shown, '## You\n\nhello')
  has(shown, 'Hello **there**.')
  eq(editor:lua("return vim.bo[require('ds4.view').buffer()].modifiable"), false)
  eq(editor:lua("return vim.treesitter.highlighter.active[require('ds4.view').buffer()] ~= nil"), true)
  eq(editor:lua('return vim.bo.filetype'), 'python')
  assert(editor:lua("return _G.seen('text')"))
  editor:wait("require('ds4').statusline():match('^ds4 idle.*tok/s.*ctx %d+%%')", 'the statusline')
end)

test('a guarded edit lands while the user types, and is undone alone', function()
  editor:type('G$ityped')
  editor:wait("vim.api.nvim_get_mode().mode == 'i' and vim.fn.getline('$') == 'notes = \"typed\"'")
  editor:lua('_G.events = {}')
  editor:prompt('fix add')
  -- What is typed after the model has read the file moves nothing that it edits.
  editor:wait("_G.seen('tool.result')")
  editor:type('!')
  eq(editor:result().stopReason, 'end')
  eq(editor:mode().mode, 'i')
  local both = CALC:gsub('""', '"typed!"'):gsub('return a %- b', 'return a + b', 1)
  eq(table.concat(editor:lines(), '\n') .. '\n', both)
  eq(editor:read('calc.py'), both)
  editor:type(' more<Esc>')
  editor:wait("vim.api.nvim_get_mode().mode == 'n' and vim.fn.getline('$') == 'notes = \"typed! more\"'")
  editor:type('u')
  editor:wait("vim.fn.getline('$') == 'notes = \"typed!\"'")
  eq(editor:lua('return vim.fn.getline(2)'), '    return a + b')
  editor:type('u')
  editor:wait("vim.fn.getline(2) == '    return a - b'")
  eq(editor:lua("return vim.fn.getline('$')"), 'notes = "typed!"')
  editor:type('<C-r>')
  editor:wait("vim.fn.getline(2) == '    return a + b'")
  local shown = editor:session()
  has(shown, '**edit** `calc.py:2` ✓')
  has(shown, '✎ calc.py:2-2')
  editor:picture('turn')
end)

test('tool output is folded, and an edit leads to its place', function()
  local fold = editor:lua([[
    local buf = require('ds4.view').buffer()
    local window = vim.fn.win_findbuf(buf)[1]
    return vim.api.nvim_win_call(window, function()
      vim.cmd.redraw()
      local line = vim.fn.search('↳ read, ok', 'cw')
      return { vim.fn.foldclosed(line) == line, vim.fn.foldclosedend(line) > line, vim.fn.foldtextresult(line) }
    end)
  ]])
  eq({ fold[1], fold[2] }, { true, true })
  has(fold[3], 'read, ok')
  editor:command('normal! gg')
  editor:lua([[
    vim.api.nvim_set_current_win(vim.fn.win_findbuf(require('ds4.view').buffer())[1])
    vim.fn.search('✎', 'cw')
  ]])
  editor:type('<CR>')
  editor:wait("vim.fn.expand('%:t') == 'calc.py' and vim.fn.line('.') == 2")
end)

---@param name string
---@param fields table
---@return table answer
local function apply(name, fields)
  local uri = vim.uri_from_fname(vim.fs.joinpath(editor.workspace, name))
  local read = editor:request('ds4.readFile', { uri = uri, raw = true })
  return editor:request('ds4.applyEdit', vim.tbl_extend('force', { uri = uri, fileTag = read.fileTag }, fields))
end

test('a file that is not open keeps its line ends and a missing last one, and is not left open', function()
  local before = editor:lua('return #vim.api.nvim_list_bufs()')
  local answer = apply('crlf.txt', { startLine = 2, endLine = 2, newText = 'TWO' })
  eq({ answer.applied, answer.saved, answer.fileTag }, { true, true, crc32('one\r\nTWO') })
  eq(editor:read('crlf.txt'), 'one\r\nTWO')
  eq(editor:lua('return #vim.api.nvim_list_bufs()'), before)
end)

test('the server follows a final newline that goes from an open file, and comes back', function()
  editor:command('split open.txt')
  for _, wanted in ipairs({ 'one', 'one\nlast\n' }) do
    local answer = apply('open.txt', { range = 'all', newText = wanted })
    eq({ answer.applied, answer.saved, answer.fileTag }, { true, true, crc32(wanted) })
    eq(editor:read('open.txt'), wanted)
  end
  editor:type('u')
  editor:wait("vim.fn.line('$') == 1")
  editor:command('close')
end)

test('what somebody else wrote to the file is not overwritten', function()
  editor:command('split open.txt')
  editor:file('open.txt', 'written elsewhere, and longer\n')
  local answer = apply('open.txt', { range = 'all', newText = 'mine\n' })
  eq({ answer.applied, answer.saved }, { true, false })
  eq(editor:read('open.txt'), 'written elsewhere, and longer\n')
  editor:command('bwipeout!')
end)

test('the user sees the whole command, and no answer is a no', function()
  editor:lua('_G.asked = {}')
  editor:prompt('run it')
  editor:wait_for_question()
  editor:type('<CR>')
  local result = editor:result()
  eq(result.toolCalls[1].ok, false)
  eq(editor:read('ran'), nil)
  local asked = editor:lua('return _G.asked[1]')
  eq(asked.items, { 'Deny', 'Allow once', 'Allow for this session' })
  has(asked.prompt, 'touch ran\necho yes')
  has(asked.screen, 'Run this command?')
  has(asked.screen, 'echo yes')
  editor:picture('approval', asked.picture)
  has(editor:session(), '**bash** `touch ran …` ✗')
end)

test('stop ends the reply, with what the user saw', function()
  editor:lua('_G.events = {}')
  editor:prompt('count')
  editor:wait("_G.seen('text')")
  editor:command('DS4 stop')
  local result = editor:result()
  eq(result.stopReason, 'cancelled')
  assert(#result.text < 5 * 400, 'the whole reply came')
  has(editor:session(), '*cancelled')
end)

test('the edits of a turn are taken back, and a file that changed since is left alone', function()
  editor:command("call append('$', 'mine')")
  editor:command('DS4 undo 2')
  editor:wait("vim.iter(_G.told):any(function(text) return text:find('calc.py was left: ', 1, true) end)")
  eq(editor:lua('return vim.fn.getline(2)'), '    return a + b')
  editor:command('normal! u')
  editor:command('DS4 undo 2')
  editor:wait("vim.iter(_G.told):any(function(text) return text:find('1 file restored', 1, true) end)")
  eq(editor:lua('return vim.fn.getline(2)'), '    return a - b')
end)

test('the commands complete, sessions by their ids', function()
  local function complete(line)
    return editor:lua('return vim.fn.getcompletion(..., "cmdline")', line)
  end
  eq(complete('DS4 st'), { 'status', 'stop' })
  eq(#complete('DS4 '), 13)
  eq(#complete('DS4 switch '), 1)
  eq(complete('DS4 switch zz'), {})
  eq(complete('DS4 jobs '), { 'stop' })
end)

test("a range becomes the prompt's context", function()
  editor:lua([[
    _G.sent = nil
    require('ds4').compose = function(context) _G.sent = context end
  ]])
  editor:command('2,3DS4 prompt')
  local sent = editor:lua('return _G.sent[1]')
  assert(vim.endswith(sent.uri, '/calc.py'))
  eq(sent.range, { start = { line = 1, character = 0 }, ['end'] = { line = 2, character = 0 } })
end)

test('an edit of other text than what was seen is refused and changes nothing', function()
  local function send(method, params)
    return editor:lua(
      [[
      local method, params = ...
      local client = vim.lsp.get_clients({ name = 'ds4' })[1]
      return client.handlers[method](nil, params, { client_id = client.id })
    ]],
      method,
      params
    )
  end
  local uri = vim.uri_from_fname(vim.fs.joinpath(editor.workspace, 'calc.py'))
  local other = vim.uri_from_fname(vim.fs.joinpath(editor.workspace, 'crlf.txt'))
  editor:command('call setline(1, getline(1))')
  local version = editor:lua('return vim.lsp.util.buf_versions[vim.api.nvim_get_current_buf()]')
  assert(version > 1)
  local lines = editor:lines()
  local tag = crc32(table.concat(lines, '\n') .. '\n')
  local range = { start = { line = 0, character = 0 }, ['end'] = { line = 0, character = 3 } }
  local edits = { { range = range, newText = 'DEF' } }
  ---@param document_version integer|userdata
  local function change(document_version, document)
    return { textDocument = { uri = document or uri, version = document_version }, edits = edits }
  end
  for _, guard in ipairs({
    { uri = uri, version = version - 1, fileTag = tag },
    { uri = uri, version = version, fileTag = '00000000' },
  }) do
    local answer = send('ds4/applyGuardedEdit', {
      edit = { documentChanges = { change(guard.version) } },
      guards = { guard },
      save = true,
    })
    eq(answer.applied, false)
    assert(answer.failureReason)
  end
  -- The later document is stale: the first one has to stay as it is, too.
  for _, stale in ipairs({ 0, version - 1 }) do
    eq(send('workspace/applyEdit', { edit = { documentChanges = { change(version), change(stale) } } }).applied, false)
  end
  eq(
    send('workspace/applyEdit', {
      edit = {
        changes = {
          [other] = {
            { range = { start = { line = 7, character = 0 }, ['end'] = { line = 7, character = 0 } }, newText = '' },
          },
        },
      },
    }).applied,
    false
  )
  eq(editor:lines(), lines)
  eq(send('workspace/applyEdit', { edit = { documentChanges = { change(version) } } }).applied, true)
  eq(editor:lua('return vim.fn.getline(1)'), 'DEF add(a, b):')
end)

test('the server and its engine end with :qa!', function()
  local processes = editor:descendants()
  assert(#processes >= 2, 'server and engine run')
  editor:quit()
  assert(
    vim.wait(2500, function()
      return not vim.iter(processes):any(Editor.alive)
    end, 20),
    'a process is left'
  )
  editor:close()
end)
