local test = ...

local Editor = require('editor')
local call = Editor.call

local function eq(got, wanted)
  assert(vim.deep_equal(got, wanted), ('%s is not %s'):format(vim.inspect(got), vim.inspect(wanted)))
end

local function has(text, part)
  assert(text:find(part, 1, true), ('%q is not in:\n%s'):format(part, text))
end

local editor = Editor.new()
editor:file('calc.py', 'def add(a, b):\n    return a - b\n\n\nprint(add(1, 2))\n')

---Waits until the editor has told a text.
---@param text string
local function wait_told(text)
  editor:wait(('vim.iter(_G.told):any(function(told) return told:find(%q, 1, true) end)'):format(text))
end

---Waits until `:messages` has a text, and gives them.
---@param text string
---@return string
local function wait_message(text)
  return editor:wait(
    ("(function() local all = vim.fn.execute('messages') return all:find(%q, 1, true) and all end)()"):format(text)
  )
end

---@return string the first line of the session's buffer
local function heading()
  return editor:lua("return vim.fn.getbufline(require('ds4.view').buffer(), 1)[1]")
end

---The last thing that the user said, as the server keeps it.
---@return table
local function last_prompt()
  local history = editor:request('ds4.showHistory', { turns = 1 }).history
  return vim
    .iter(history)
    :filter(function(entry)
      return entry.role == 'user'
    end)
    :last()
end

test('a prompt is written at the bottom, in as many lines as one likes, and sent by a key', function()
  editor:start({
    -- Every reply is scripted: a fast model does.
    env = { DS4_MODEL = vim.env.DS4_TEST_FAST_MODEL or vim.env.DS4_MODEL },
    setup = { open = true },
    settings = { permissions = { bash = 'allow' } },
    replies = {
      '<think>Two lines,\nthen.</think>One.',
      'Two.',
      'Three.',
      'Four.',
      call('bash', { command = 'exec sleep 4321', timeout_sec = 9000, refresh_sec = 0 }),
      'It runs.',
      'An explanation.',
      'A change.',
      call('bash', { command = 'touch ran' }),
      'It ran.',
    },
  })
  editor:command('edit calc.py')
  editor:command('DS4 prompt')
  editor:wait("vim.api.nvim_get_mode().mode == 'i' and vim.api.nvim_buf_get_name(0):match('ds4://prompt$')")
  local rows = editor:lua([[
    local view = require('ds4.view')
    local session, prompt = view.window_of(view.buffer()), vim.api.nvim_get_current_win()
    return { vim.fn.win_screenpos(session)[1] + vim.api.nvim_win_get_height(session), vim.fn.win_screenpos(prompt)[1] }
  ]])
  eq(rows[2], rows[1] + 1)
  editor:type('first line<CR>second line<C-s>')
  editor:wait("_G.seen('turn.end')")
  has(editor:session(), '## You\n\nfirst line\nsecond line')
  eq(editor:lines(editor:lua("return require('ds4.compose').buffer()")), { '' })
  editor:lua('_G.events = {}')
  editor:type('ithe second<Esc>')
  editor:wait("vim.api.nvim_get_mode().mode == 'n'")
  editor:type('<CR>')
  editor:wait("_G.seen('turn.end')")
  has(editor:session(), '## You\n\nthe second\n\n## DS4\n\nTwo.')
end)

test('thinking is folded, also when it comes from the history', function()
  for _ = 1, 2 do
    local fold = editor:lua([[
      return vim.api.nvim_win_call(vim.fn.win_findbuf(require('ds4.view').buffer())[1], function()
        local line = vim.fn.search('^\\*thinking', 'cw')
        return { vim.fn.getline(line + 1), vim.fn.foldclosed(line) == line, vim.fn.foldclosedend(line) > line }
      end)
    ]])
    has(fold[1], 'Two lines,')
    eq({ fold[2], fold[3] }, { true, true })
    local tick = "vim.api.nvim_buf_get_changedtick(require('ds4.view').buffer())"
    local before = editor:lua('return ' .. tick)
    editor:command('DS4 history')
    editor:wait(('%s ~= %d'):format(tick, before))
  end
end)

test('q hides the session and its prompt, and :DS4 shows them again', function()
  editor:type('q')
  editor:wait("not require('ds4.view').is_open()")
  eq(editor:lua('return #vim.api.nvim_list_wins()'), 1)
  editor:command('DS4')
  eq(editor:lua("return require('ds4.view').is_open()"), true)
  eq(editor:lua('return #vim.api.nvim_list_wins()'), 3)
  editor:command('DS4')
  eq(editor:lua("return require('ds4.view').is_open()"), false)
end)

test('lines that are selected become what the prompt is about', function()
  editor:lua("vim.keymap.set({ 'n', 'x' }, '<Leader>a', '<Plug>(ds4-prompt)')")
  editor:type('ggVj\\a')
  editor:wait("vim.api.nvim_get_mode().mode == 'i' and vim.api.nvim_buf_get_name(0):match('ds4://prompt$')")
  has(editor:lua('return _G.screen()'), 'about calc.py:1-2')
  editor:lua('_G.events = {}')
  editor:type('what is it?<C-s>')
  editor:wait("_G.seen('turn.end')")
  local place = last_prompt().context[1]
  assert(vim.endswith(place.uri, '/calc.py'))
  eq(place.range, { start = { line = 0, character = 0 }, ['end'] = { line = 1, character = 16 } })
  editor:command('wincmd t')
  editor:lua('_G.events = {}')
  editor:command('5DS4 prompt and this?')
  editor:wait("_G.seen('turn.end')")
  eq(last_prompt().context[1].range.start.line, 4)
end)

test('every <Plug> mapping leads to a subcommand', function()
  for _, name in ipairs({ 'open', 'prompt', 'stop', 'compact', 'new', 'switch', 'undo', 'status' }) do
    local mapping = editor:lua('return vim.fn.maparg(..., "n")', ('<Plug>(ds4-%s)'):format(name))
    local subcommand = mapping:match('^<Cmd>DS4 ?(%a*)<CR>$')
    assert(subcommand, name .. ' is mapped to ' .. mapping)
    assert(subcommand == '' or require('ds4.command').subcommands[subcommand], subcommand)
  end
end)

test(':DS4 history shows the last turns', function()
  has(editor:session(), 'One.')
  editor:command('DS4 history 1')
  editor:wait("not table.concat(vim.fn.getbufline(require('ds4.view').buffer(), 1, '$'), '\\n'):find('One.', 1, true)")
  has(editor:session(), 'and this?\n\n## DS4\n\nFour.')
end)

test(':DS4 status tells state, model, context, speed, session, queue and jobs', function()
  editor:command('messages clear')
  editor:command('DS4 status')
  local shown = wait_message('jobs     0')
  for _, part in ipairs({
    'state    idle',
    'model    ',
    'context  ',
    ' of 4096 tokens',
    'tok/s',
    'session  ',
    'queue    0',
  }) do
    has(shown, part)
  end
end)

test(':DS4 jobs lists what runs, and stops it', function()
  editor:lua('_G.events = {}')
  editor:command('DS4 prompt run it')
  editor:wait("_G.seen('turn.end')")
  editor:command('messages clear')
  editor:command('DS4 jobs')
  has(wait_message('sleep 4321'), '1  running')
  local pid = editor:request('ds4.listJobs').jobs[1].pid
  assert(Editor.alive(pid))
  eq(editor:lua("return vim.fn.getcompletion('DS4 jobs s', 'cmdline')"), { 'stop' })
  editor:command('DS4 jobs stop 1')
  wait_message('1  killed')
  eq(Editor.alive(pid), false)
end)

test('a code action prompts about its line, and one that edits asks for the instruction', function()
  editor:command('wincmd t')
  eq(editor:lua("return vim.fn.expand('%:t')"), 'calc.py')
  local function act(title)
    editor:lua('_G.events = {}')
    editor:lua(
      [[
      local title = ...
      vim.lsp.buf.code_action({ apply = true, filter = function(action) return action.title == title end })
    ]],
      title
    )
  end
  editor:command('2')
  act('DS4: Explain')
  editor:wait("_G.seen('turn.end')")
  has(editor:session(), 'An explanation.')
  eq(last_prompt().context[1].range.start.line, 1)
  editor:lua('vim.ui.input = function(options, answer) _G.wanted = options.prompt answer("add, do not subtract") end')
  act('DS4: Edit with a prompt…')
  editor:wait("_G.seen('turn.end')")
  eq(editor:lua('return _G.wanted'), 'DS4, edit: ')
  eq(last_prompt().text, 'add, do not subtract')
  eq(last_prompt().context[1].range.start.line, 1)
end)

---@param section table of the settings, in force from now on
local function configure(section)
  editor:lua(
    [[
    local client = vim.lsp.get_clients({ name = 'ds4' })[1]
    client.settings = vim.tbl_deep_extend('force', client.settings, { ds4 = ... })
    client:notify('workspace/didChangeConfiguration', { settings = client.settings })
  ]],
    section
  )
end

test('a command that the user allows runs', function()
  configure({ permissions = { bash = 'ask' } })
  editor:prompt('go')
  editor:wait_for_question()
  eq(editor:read('ran'), nil)
  editor:type('2<CR>')
  eq(editor:result().toolCalls[1].ok, true)
  eq(editor:read('ran'), '')
end)

test('with edits.confirm the user sees the difference first, and decides', function()
  configure({ edits = { confirm = 'always' } })
  local uri = vim.uri_from_fname(vim.fs.joinpath(editor.workspace, 'calc.py'))
  local before = editor:read('calc.py')
  for answer, wanted in pairs({
    ['<CR>'] = before,
    ['2<CR>'] = (before:gsub('return a %- b', 'return a + b')),
  }) do
    local read = editor:request('ds4.readFile', { uri = uri })
    editor:lua(
      [[
      _G.problem, _G.result, _G.asked = nil, nil, {}
      local function answered(problem, result) _G.problem, _G.result = problem, result end
      require('ds4').request('ds4.applyEdit', ..., answered)
    ]],
      { uri = uri, fileTag = read.fileTag, startLine = 2, endLine = 2, newText = '    return a + b' }
    )
    editor:wait_for_question()
    local asked = editor:lua('return _G.asked[1]')
    eq(asked.items, { 'Reject', 'Apply' })
    has(asked.screen, '+    return a + b')
    editor:type(answer)
    editor:wait('_G.result or _G.problem')
    eq(editor:read('calc.py'), wanted)
    -- For the other answer, in whatever order they come.
    editor:lua("vim.fn.setbufline('calc.py', 2, '    return a - b') vim.cmd('silent wall')")
  end
  configure({ edits = { confirm = 'never' } })
end)

test(':DS4 fork copies the session and shows the copy; :DS4 switch lets the user choose one', function()
  local first = heading()
  editor:command('DS4 fork')
  editor:wait(("vim.fn.getbufline(require('ds4.view').buffer(), 1)[1] ~= %q"):format(first))
  local copy = heading()
  has(copy, '# DS4 session ')
  has(editor:session(), 'It ran.')
  eq(#editor:request('ds4.listSessions').sessions, 2)
  editor:lua('_G.asked = {}')
  editor:command('DS4 switch')
  editor:wait_for_question()
  local items = editor:lua('return _G.asked[1].items')
  eq({ #items, items[1].current, '# DS4 session ' .. items[2].sessionId:sub(1, 8) }, { 2, true, first })
  editor:type('2<CR>')
  editor:wait(("vim.fn.getbufline(require('ds4.view').buffer(), 1)[1] == %q"):format(first))
end)

test(':DS4 model loads the configured model again, and says which file does not exist', function()
  editor:lua('_G.told = {}')
  editor:command('DS4 model')
  wait_told('ds4: model: ')
  editor:command('DS4 model ' .. editor.root .. '/none.gguf')
  wait_told('none.gguf')
  eq(editor:lua("return vim.fn.getcompletion('DS4 model ca', 'cmdline')"), { 'calc.py' })
end)

test(':DS4 log opens what the server said', function()
  editor:command('DS4 log')
  eq(editor:lua("return vim.fn.expand('%:p') == vim.fn.fnamemodify(vim.lsp.log.get_filename(), ':p')"), true)
  eq(editor:lua("return vim.fn.line('.') == vim.fn.line('$')"), true)
  editor:command('tabclose')
end)

test('a subcommand that does not exist is told with those that do', function()
  editor:lua('_G.told = {}')
  editor:command('DS4 nonsense')
  local told = editor:lua('return _G.told[1]')
  for name in pairs(require('ds4.command').subcommands) do
    has(told, name)
  end
end)

test('a flood of events is one change of the buffer, and disturbs neither typing nor its window', function()
  editor:command('wincmd t')
  editor:type('Go')
  editor:wait("vim.api.nvim_get_mode().mode == 'i'")
  local seen = editor:lua([[
    local buf, changes = require('ds4.view').buffer(), 0
    local session = require('ds4.state').now.session
    vim.api.nvim_buf_attach(buf, false, { on_lines = function() changes = changes + 1 end })
    local before = vim.api.nvim_buf_get_changedtick(0)
    for number = 1, 3000 do
      local event = { kind = 'text', sessionId = session, turn = 99, delta = 'word ' .. number .. '\n' }
      require('ds4.state').event(event)
    end
    local at_once = changes
    vim.wait(10000, function() return not require('ds4.view').pending() end)
    local last = vim.api.nvim_buf_get_lines(buf, -3, -1, true)
    local mode, untouched = vim.api.nvim_get_mode().mode, vim.api.nvim_buf_get_changedtick(0) == before
    return { at_once = at_once, changes = changes, last = last, mode = mode, untouched = untouched }
  ]])
  eq({ seen.at_once, seen.changes, seen.mode, seen.untouched }, { 0, 1, 'i', true })
  has(table.concat(seen.last, '\n'), 'word 3000')
  editor:type('typed<Esc>')
  editor:wait("vim.api.nvim_get_mode().mode == 'n' and vim.fn.getline('$') == 'typed'")
  editor:close()
end)
