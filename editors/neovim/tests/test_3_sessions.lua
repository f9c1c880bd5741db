local test = ...

local Editor = require('editor')

local function eq(got, wanted)
  assert(vim.deep_equal(got, wanted), ('%s is not %s'):format(vim.inspect(got), vim.inspect(wanted)))
end

local function has(text, part)
  assert(text:find(part, 1, true), ('%q is not in:\n%s'):format(part, text))
end

local SUMMARY = '## Primary Request and Intent\nCount words.\n\n## Next Step\nGo on.\n'
local LONG_SUMMARY = { purpose = 'summary', text = SUMMARY .. ('and on '):rep(400), delay_ms = 400 }
-- Compaction takes thousands of tokens, and every reply is scripted: a fast model does.
local FAST = { DS4_MODEL = vim.env.DS4_TEST_FAST_MODEL or vim.env.DS4_MODEL }
local editor = Editor.new()

test('a compaction shows its progress, is cancelled alone, and the next one completes', function()
  editor:start({
    env = FAST,
    setup = { open = true },
    settings = { compaction = { auto = false, tailPercent = 1, summaryMaxTokens = 256 } },
    replies = {
      'First answer.',
      'Second answer.',
      LONG_SUMMARY,
      LONG_SUMMARY,
      { purpose = 'summary', text = SUMMARY },
    },
  })
  editor:prompt('Remember these words: ' .. ('alpha beta gamma delta '):rep(300))
  editor:result()
  editor:prompt('And the second.')
  editor:result()
  editor:lua([[
    _G.events, _G.lines = {}, {}
    vim.api.nvim_create_autocmd('LspProgress', { callback = function()
      table.insert(_G.lines, require('ds4').statusline())
    end })
  ]])
  editor:command('DS4 compact')
  editor:wait("_G.seen('compaction.delta')")
  has(editor:session(), '**COMPACTING** (manual')
  editor:picture('compacting')
  editor:lua("vim.api.nvim_set_current_win(vim.fn.win_findbuf(require('ds4.view').buffer())[1])")
  editor:type('<C-c>')
  editor:wait("vim.iter(_G.told):any(function(text) return text:find('not compacted', 1, true) end)")
  has(editor:session(), '**NOT COMPACTED**')
  has(table.concat(editor:lua('return _G.lines'), '\n'), 'COMPACTING')
  -- Neovim takes a <C-c> that comes between two things that it does for an interrupt, and runs no mapping.
  editor:lua('_G.events, _G.told = {}, {}')
  editor:command('DS4 compact')
  editor:wait("_G.seen('compaction.delta')")
  editor:type_while_busy('<C-c>')
  editor:wait("vim.iter(_G.told):any(function(text) return text:find('not compacted', 1, true) end)")
  editor:command('DS4 compact keep the words')
  editor:wait("vim.iter(_G.told):any(function(text) return text:find('ds4: compacted', 1, true) end)")
  local shown = editor:session()
  has(shown, '**COMPACTED**')
  has(shown, 'Count words.')
  has(table.concat(editor:lua('return _G.told'), '\n'), 'COMPACTING: ')
end)

test('a session is switched to after a restart, and shows what was said', function()
  local first = editor:request('ds4.status').session.sessionId
  editor:command('DS4 new other')
  editor:wait(("not vim.fn.getbufline(require('ds4.view').buffer(), 1)[1]:find(%q, 1, true)"):format(first:sub(1, 8)))
  editor:quit()
  editor:start({ env = FAST, replies = { 'Back again.' } })
  eq(editor:lua("return require('ds4').statusline()"), '')
  editor:command('DS4')
  editor:wait("vim.startswith(vim.fn.getbufline(require('ds4.view').buffer(), 1)[1], '# DS4 session')", 'resuming')
  editor:command('DS4 switch ' .. first:sub(1, 6))
  editor:wait(("vim.fn.getbufline(require('ds4.view').buffer(), 1)[1]:find(%q, 1, true)"):format(first:sub(1, 8)))
  local shown = editor:session()
  has(shown, '# DS4 session ' .. first:sub(1, 8))
  has(shown, 'Second answer.')
  has(shown, '**COMPACTED**')
  eq(#editor:request('ds4.listSessions').sessions, 2)
end)

test('the summary stands beside what it stands for, one key away', function()
  editor:lua([[
    vim.api.nvim_set_current_win(vim.fn.win_findbuf(require('ds4.view').buffer())[1])
    vim.fn.search('COMPACTED', 'cw')
  ]])
  editor:type('<CR>')
  editor:wait("vim.fn.getline(1):find('Checkpoint', 1, true)")
  has(table.concat(editor:lines(), '\n'), '# What it replaced')
end)

test(':checkhealth ds4 finds the server and the model', function()
  editor:command('checkhealth ds4')
  local report = table.concat(editor:lines(), '\n')
  has(report, 'ds4-lsp')
  has(report, 'the server runs in')
  assert(not report:find('ERROR', 1, true), report)
end)

test('the server and its engine end with a killed editor', function()
  local processes = {}
  assert(
    vim.wait(60000, function()
      processes = editor:descendants()
      return #processes >= 2
    end, 50),
    'server and engine run'
  )
  vim.uv.kill(editor.pid, 'sigkill')
  assert(
    vim.wait(4000, function()
      return not vim.iter(processes):any(Editor.alive)
    end, 20),
    'a process is left'
  )
  editor:close()
end)

test('a missing server is an error that says what to do, here and in :checkhealth', function()
  local other = Editor.new()
  other:start({ setup = { cmd = { 'no-such-server' } } })
  other:prompt('hello')
  eq(other:lua('return _G.result'), vim.NIL)
  has(other:lua('return _G.problem').message, 'no-such-server')
  has(other:lua('return _G.told[1]'), 'is not installed')
  other:command('checkhealth ds4')
  has(table.concat(other:lines(), '\n'), 'ERROR')
  other:close()
end)
