-- What happens while something else does: a view that is wiped, a question that is withdrawn, a stop, a prompt.

local test = ...

local Editor = require('editor')
local crc32 = require('ds4.crc32')
local call = Editor.call

local function eq(got, wanted)
  assert(vim.deep_equal(got, wanted), ('%s is not %s'):format(vim.inspect(got), vim.inspect(wanted)))
end

local function has(text, part)
  assert(text:find(part, 1, true), ('%q is not in:\n%s'):format(part, text))
end

local function lacks(text, part)
  assert(not text:find(part, 1, true), ('%q is in:\n%s'):format(part, text))
end

-- Every reply is scripted: a fast model does.
local FAST = { DS4_MODEL = vim.env.DS4_TEST_FAST_MODEL or vim.env.DS4_MODEL }
local SUMMARY = '## Primary Request and Intent\nCount words.\n\n## Next Step\nGo on.\n'
local FLOATS = [[vim.iter(vim.api.nvim_list_wins()):filter(function(window)
  return vim.api.nvim_win_get_config(window).relative ~= ''
end):totable()]]

---@param editor ds4.test.Editor
---@return string what Neovim said, errors of scheduled callbacks among it
local function messages(editor)
  return editor:lua("return vim.fn.execute('messages')")
end

---@param editor ds4.test.Editor
local function compact(editor)
  editor:lua([[
    _G.events, _G.compacted = {}, nil
    require('ds4').compact(nil, function(problem, result) _G.compacted = problem or result end)
  ]])
end

local busy = Editor.new()
local GO = vim.fs.joinpath(busy.root, 'go')
-- It goes on until that file is there.
local HELD_SUMMARY = { purpose = 'summary', text = SUMMARY .. ('and on '):rep(12), ['until'] = GO }

test('a compaction leads to its checkpoint as soon as it is done', function()
  busy:start({
    env = FAST,
    setup = { open = true },
    settings = {
      model = { contextSize = 8192 },
      compaction = { auto = false, tailPercent = 1, summaryMaxTokens = 256 },
    },
    replies = {
      'First.',
      'Second.',
      { purpose = 'summary', text = SUMMARY },
      { purpose = 'turn', text = ('word '):rep(300), delay_ms = 20 },
      { purpose = 'summary', text = SUMMARY },
      'Third.',
      'Fourth.',
      HELD_SUMMARY,
      'Fifth.',
      HELD_SUMMARY,
      'Sixth.',
      HELD_SUMMARY,
    },
  })
  for _, text in ipairs({ 'Keep: ' .. ('alpha beta gamma delta '):rep(300), 'And the second.' }) do
    busy:prompt(text)
    busy:result()
  end
  compact(busy)
  eq(busy:wait('_G.compacted').compacted, true)
  has(busy:session(), '**COMPACTED** (manual')
  busy:lua([[
    vim.api.nvim_set_current_win(vim.fn.win_findbuf(require('ds4.view').buffer())[1])
    vim.fn.search('COMPACTED', 'cw')
  ]])
  busy:type('<CR>')
  busy:wait("vim.fn.getline(1):find('Checkpoint', 1, true)")
end)

test('stop ends the reply while a compaction waits behind it', function()
  busy:lua('_G.events = {}')
  busy:prompt('a long reply')
  busy:wait("_G.seen('text')")
  compact(busy)
  -- Once a later request is answered, the server has the one to compact, too.
  busy:lua([[
    _G.answered = nil
    require('ds4').request('ds4.status', {}, function() _G.answered = true end)
  ]])
  busy:wait('_G.answered')
  busy:command('DS4 stop')
  local result = busy:result()
  eq(result.stopReason, 'cancelled')
  assert(#result.text < 5 * 300, 'the whole reply came')
  busy:wait('_G.compacted')
end)

test('a prompt behind a compaction is shown as queued until its turn starts', function()
  busy:prompt('More: ' .. ('one two three four '):rep(260))
  busy:result()
  compact(busy)
  busy:wait("_G.seen('compaction.delta')")
  busy:prompt('am I seen?')
  busy:wait("_G.seen('queued')")
  has(busy:session(), '> queued: am I seen?')
  busy:lua([[
    require('ds4').prompt('take me back', {}, function(_, result) _G.taken_back = result end)
  ]])
  busy:wait("vim.iter(_G.events):any(function(event) return event.text == 'take me back' end)")
  busy:lua([[
    vim.ui.select = function(items, _, choose)
      choose(type(items[1]) == 'table' and items[#items] or 'Take back')
    end
  ]])
  busy:command('DS4 queue')
  busy:wait('_G.taken_back')
  eq(busy:lua('return _G.taken_back.stopReason'), 'cancelled')
  lacks(busy:session(), 'take me back')
  eq(busy:lua('return _G.compacted'), vim.NIL)
  vim.fn.writefile({}, GO)
  busy:wait('_G.compacted')
  busy:result()
  local shown = busy:session()
  lacks(shown, 'queued: am I seen?')
  has(shown, '\n\n## You\n\nam I seen?\n\n## DS4\n\nFourth.')
  lacks(shown, '\n\n\n')
  has(shown, '**COMPACTED** (manual')
  lacks(shown, '**COMPACTING**')
end)

test('the session can be wiped and unloaded while it is compacted, and shown again', function()
  for _, command in ipairs({ 'bwipeout!', 'bunload!' }) do
    vim.fn.delete(GO)
    busy:prompt('Even more: ' .. ('five six seven eight '):rep(260))
    busy:result()
    compact(busy)
    busy:wait("_G.seen('compaction.delta')")
    busy:command(command .. ' ' .. busy:lua("return require('ds4.view').buffer()"))
    vim.fn.writefile({}, GO)
    busy:wait('_G.compacted')
    busy:wait("_G.seen('compaction.end')")
    eq(messages(busy), '')
    busy:command('DS4')
    busy:wait("vim.startswith(vim.fn.getbufline(require('ds4.view').buffer(), 1)[1], '# DS4 session')")
    has(busy:session(), 'Even more:')
    eq(busy:lua("return require('ds4.view').is_open()"), true)
  end
  busy:close()
end)

local asked = Editor.new()

---Starts an editor whose picker, as those of plugins, returns before the user has chosen.
local function with_a_picker(options)
  asked:start(vim.tbl_extend('force', { env = FAST, setup = { open = true } }, options))
  asked:lua([[
    _G.picks = {}
    vim.ui.select = function(items, options, choose) table.insert(_G.picks, { items = items, choose = choose }) end
  ]])
end

test('a question goes with the turn that asked it, and an answer that comes later is none', function()
  with_a_picker({
    replies = {
      call('bash', { command = 'touch first' }),
      call('bash', { command = 'touch second' }),
      'Done.',
      call('bash', { command = 'touch third' }),
      call('bash', { command = 'touch fourth' }),
    },
  })
  asked:prompt('run it')
  asked:wait('#_G.picks == 1')
  eq(asked:lua(('return #%s'):format(FLOATS)), 1)
  asked:command('DS4! stop')
  eq(asked:result().stopReason, 'cancelled')
  asked:wait(('#%s == 0'):format(FLOATS), 'the window of the question to close')
  asked:wait("vim.iter(_G.told):any(function(text) return text:find('Run this command?', 1, true) end)")
  asked:prompt('run the other')
  asked:wait('#_G.picks == 2')
  asked:lua("_G.picks[1].choose('Allow once')")
  eq(asked:lua(('return #%s'):format(FLOATS)), 1)
  asked:lua("_G.picks[2].choose('Allow once')")
  eq(asked:result().stopReason, 'end')
  eq({ asked:read('first'), asked:read('second') }, { nil, '' })
  eq(asked:lua(('return #%s'):format(FLOATS)), 0)
  eq(messages(asked), '')
end)

test('the question of the default picker goes, too', function()
  asked:lua("package.loaded['vim.ui'], vim.ui = nil, nil vim.ui = require('vim.ui')")
  asked:prompt('run the third')
  asked:wait_for_question()
  asked:command('DS4! stop')
  eq(asked:result().stopReason, 'cancelled')
  asked:wait("vim.api.nvim_get_mode().mode == 'n'")
  eq(asked:lua(('return #%s'):format(FLOATS)), 0)
  eq(asked:read('third'), nil)
end)

test('a question goes with the server that asked it', function()
  asked:lua('vim.ui.select = function() _G.picking = true end')
  asked:prompt('run the fourth')
  asked:wait('_G.picking')
  asked:lua("vim.lsp.get_clients({ name = 'ds4' })[1]:stop(true)")
  asked:wait('_G.result or _G.problem')
  asked:wait(('#%s == 0'):format(FLOATS), 'the window of the question to close')
  eq(messages(asked), '')
  asked:close()
end)

local said = Editor.new()

---@return string the session that the view shows
local function heading()
  return said:lua("return vim.fn.getbufline(require('ds4.view').buffer(), 1)[1]")
end

test('slash prompts about sessions act as the commands do: the view follows', function()
  said:start({ env = FAST, setup = { open = true }, replies = { 'First.', 'Second.', 'A path.' } })
  for _, text in ipairs({ 'hello', 'and again' }) do
    said:prompt(text)
    said:result()
  end
  local first = said:request('ds4.status').session.sessionId
  said:prompt('/new other')
  local second = said:result().sessionId
  said:wait(
    ("vim.fn.getbufline(require('ds4.view').buffer(), 1)[1] == %q"):format('# DS4 session ' .. second:sub(1, 8))
  )
  lacks(said:session(), 'hello')
  said:lua('_G.told = {}')
  said:prompt('/switch ' .. first:sub(1, 8))
  said:result()
  said:wait(("vim.fn.getbufline(require('ds4.view').buffer(), 1)[1] == %q"):format('# DS4 session ' .. first:sub(1, 8)))
  has(said:session(), '## You\n\nhello')
  lacks(table.concat(said:lua('return _G.told'), '\n'), 'assistant:')
  said:prompt('/history 1')
  said:result()
  said:wait("not table.concat(vim.fn.getbufline(require('ds4.view').buffer(), 1, '$'), '\\n'):find('hello', 1, true)")
  has(said:session(), 'and again\n\n## DS4\n\nSecond.')
  lacks(table.concat(said:lua('return _G.told'), '\n'), 'assistant:')
  said:prompt('/list')
  has(said:result().text, 'other')
  has(table.concat(said:lua('return _G.told'), '\n'), 'other')
end)

test('a prompt that only begins with a slash is a prompt', function()
  said:lua('_G.told = {}')
  said:prompt('/etc/hosts is what?')
  eq(said:result().text, 'A path.')
  lacks(table.concat(said:lua('return _G.told'), '\n'), 'A path.')
end)

test('the view follows when the session is changed by a request, and its heading is right at once', function()
  local first = heading()
  local second = said:request('ds4.newSession', { title = 'third' }).sessionId
  said:wait(("vim.fn.getbufline(require('ds4.view').buffer(), 1)[1] ~= %q"):format(first))
  eq(heading(), '# DS4 session ' .. second:sub(1, 8))
  said:lua("_G.changes = vim.api.nvim_buf_get_changedtick(require('ds4.view').buffer())")
  said:command('DS4 history')
  said:wait("vim.api.nvim_buf_get_changedtick(require('ds4.view').buffer()) ~= _G.changes")
  eq(heading(), '# DS4 session ' .. second:sub(1, 8))
  said:close()
end)

test('an edit of a closed file lands while the command-line window is open, and leaves no buffer', function()
  local editor = Editor.new()
  local TEXT = 'one\ntwo\n'
  editor:file('a.txt', TEXT)
  editor:start({ env = FAST, replies = { 'Hello.' } })
  editor:prompt('hello')
  editor:result()
  local before = editor:lua('return #vim.api.nvim_list_bufs()')
  local uri = vim.uri_from_fname(vim.fs.joinpath(editor.workspace, 'a.txt'))
  editor:type('q:')
  editor:wait("vim.fn.getcmdwintype() == ':'")
  local tag = crc32(TEXT)
  for number, wanted in ipairs({ 'one\nTWO\n', 'ONE\nTWO\n' }) do
    local line = 3 - number
    local new = vim.split(wanted, '\n')[line]
    local answer = editor:request('ds4.applyEdit', {
      uri = uri,
      fileTag = tag,
      startLine = line,
      endLine = line,
      newText = new,
    })
    eq({ answer.applied, answer.saved, editor:read('a.txt') }, { true, true, wanted })
    tag = answer.fileTag
  end
  editor:type(':q<CR>')
  editor:wait("vim.fn.getcmdwintype() == '' and vim.api.nvim_get_mode().mode == 'n'")
  editor:wait(('#vim.api.nvim_list_bufs() == %d'):format(before))
  eq(messages(editor), '')
  editor:close()
end)

test('a turn that ends because the context is full says so', function()
  local editor = Editor.new()
  editor:start({
    env = FAST,
    setup = { open = true },
    settings = { model = { contextSize = 2700 }, compaction = { auto = false } },
    replies = { ('word '):rep(2700) },
  })
  editor:prompt('go on')
  eq(editor:result().stopReason, 'length')
  has(editor:session(), '> [Stopped: the context is full')
  editor:close()
end)
