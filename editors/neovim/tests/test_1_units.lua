local test = ...

local crc32 = require('ds4.crc32')
local text = require('ds4.text')

local function eq(got, wanted)
  assert(vim.deep_equal(got, wanted), ('%s is not %s'):format(vim.inspect(got), vim.inspect(wanted)))
end

test('the tag is the CRC-32 that zlib computes', function()
  eq(crc32(''), '00000000')
  eq(crc32('123456789'), 'cbf43926')
  eq(crc32('def add(a, b):\n    return a - b\n'), 'cb9f27a7')
  eq(
    crc32('héllo 🐍'),
    vim.trim(vim.fn.system({
      vim.env.DS4_TEST_PYTHON,
      '-c',
      'import zlib; print(f"{zlib.crc32(\'héllo 🐍\'.encode()):08x}")',
    }))
  )
end)

---@param line integer
---@param from integer
---@param to integer
---@param new string
local function edit(line, from, to, new)
  return {
    range = { start = { line = line, character = from }, ['end'] = { line = line, character = to } },
    newText = new,
  }
end

test('positions are counted in the encoding that was agreed', function()
  local line = 'a🐍b\r\nc\n'
  eq(text.edited(line, { edit(0, 5, 6, 'X') }, 'utf-8'), 'a🐍X\r\nc\n')
  eq(text.edited(line, { edit(0, 3, 4, 'X') }, 'utf-16'), 'a🐍X\r\nc\n')
  eq(text.edited(line, { edit(0, 2, 3, 'X') }, 'utf-32'), 'a🐍X\r\nc\n')
  eq(text.edited(line, { edit(1, 0, 1, '') }, 'utf-8'), 'a🐍b\r\n\n')
  eq(text.edited(line, { edit(2, 0, 0, 'end') }, 'utf-8'), 'a🐍b\r\nc\nend')
end)

test('an edit with a range outside the text is refused, and so are overlapping ones', function()
  eq({ text.edited('a\n', { edit(3, 0, 0, 'x') }, 'utf-8') }, { nil, 'a range of the edit is outside the document' })
  eq({ text.edited('a\n', { edit(0, 0, 9, 'x') }, 'utf-8') }, { nil, 'a range of the edit is outside the document' })
  eq(
    { text.edited('abc\n', { edit(0, 0, 2, 'x'), edit(0, 1, 3, 'y') }, 'utf-8') },
    { nil, 'the ranges of the edit overlap' }
  )
end)

test('replacing lines leaves marks on other lines where they are', function()
  local buf = vim.api.nvim_create_buf(false, true)
  local space = vim.api.nvim_create_namespace('test')
  vim.api.nvim_buf_set_lines(buf, 0, -1, true, { 'one', 'two', 'three', 'four' })
  local mark = vim.api.nvim_buf_set_extmark(buf, space, 3, 2, {})
  for _, lines in ipairs({
    { 'one', 'TWO', 'more', 'three', 'four' },
    { 'one', 'three', 'four' },
    { 'one', 'threé', 'four' },
    { 'one', 'thre', 'four' },
    { 'new', 'one', 'thre', 'four' },
  }) do
    text.replace_lines(buf, lines)
    eq(vim.api.nvim_buf_get_lines(buf, 0, -1, true), lines)
    eq(vim.api.nvim_buf_get_extmark_by_id(buf, space, mark, {}), { #lines - 1, 2 })
  end
end)

test('an unknown option and one of a wrong type are errors that name it', function()
  local config = require('ds4.config')
  local ok, problem = pcall(config.set, { nonsense = true })
  assert(not ok and problem:find('nonsense', 1, true))
  ok, problem = pcall(config.set, { turns = 'many' })
  assert(not ok and problem:find('turns', 1, true))
  ok, problem = pcall(config.set, { position = 'inside' })
  assert(not ok and problem:find('position', 1, true))
  eq(config.set({ keys = { stop = false } }).keys.send, '<CR>')
  config.set({})
end)

test('a slash prompt is what the server takes or refuses as a command, and no path and no longer text', function()
  local slash = require('ds4.slash')
  for prompt, wanted in pairs({
    ['/new'] = { name = 'new', rest = '' },
    ['/new  a title '] = { name = 'new', rest = 'a title' },
    ['/newer'] = { name = 'newer', rest = '' },
    ['/list all'] = { name = 'list', rest = 'all' },
    ['/compact\nkeep it'] = { name = 'compact', rest = 'keep it' },
    ['/switch 12ab'] = { name = 'switch', rest = '12ab' },
    ['/history 3'] = { name = 'history', rest = '3' },
    ['/help'] = { name = 'help', rest = '' },
  }) do
    eq(slash.parse(prompt), wanted)
  end
  for _, prompt in ipairs({
    'new',
    '/',
    ' /new',
    '/include <a.h>\nint x;',
    '/etc/hosts is what?',
  }) do
    eq(slash.parse(prompt), nil)
  end
end)

test('the slash word that a prompt begins with is completed', function()
  local slash = require('ds4.slash')
  vim.api.nvim_buf_set_lines(0, 0, -1, true, { '/un', 'more /un' })
  vim.api.nvim_win_set_cursor(0, { 1, 3 })
  -- Outside Insert mode the cursor stands on the last letter.
  eq(slash.omnifunc(1, ''), 0)
  eq(slash.omnifunc(0, '/un'), { '/undo', '/unqueue', '/unload' })
  vim.api.nvim_win_set_cursor(0, { 2, 8 })
  eq(slash.omnifunc(1, ''), -3)
  vim.api.nvim_buf_set_lines(0, 0, -1, true, {})
end)

test('a session that is wiped or unloaded while it is written breaks nothing', function()
  for _, command in ipairs({ 'bwipeout!', 'bdelete!', 'bunload!' }) do
    local buf = vim.api.nvim_create_buf(false, true)
    vim.bo[buf].bufhidden = 'hide'
    local writer = require('ds4.writer').new(buf)
    writer:below({ '', '> queued: more' })
    writer:write('one\ntwo\nthree\nfour')
    writer:flush()
    eq(vim.api.nvim_buf_get_lines(buf, 0, -1, true), { 'one', 'two', 'three', 'four', '', '> queued: more' })
    vim.cmd(('%s %d'):format(command, buf))
    writer:rewrite(2, 'TWO')
    writer:write(' and five\nsix')
    writer:flush()
    writer:below({})
    writer:flush()
    writer:clear()
    pcall(vim.api.nvim_buf_delete, buf, { force = true })
  end
end)
