-- The session's buffer and window. Below it is that of the prompt, `ds4.compose`.

local Transcript = require('ds4.transcript')
local client = require('ds4.client')
local config = require('ds4.config')
local state = require('ds4.state')

local M = {}

local SESSION = 'ds4://session'
local transcript ---@type ds4.Transcript?

---Creates a buffer of the plugin's. Neovim takes `ds4:` for a relative path, because of its digit: the buffer's full
---name depends on the current directory, and so buffers are kept by number.
---@param name string
---@return integer buf
function M.create(name)
  local buf = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(buf, name)
  M.common(buf)
  return buf
end

---@param buf integer
---@param modes string|string[]
---@param key? string|false
---@param run fun()
---@param desc string
function M.map(buf, modes, key, run, desc)
  if key then
    vim.keymap.set(modes, key, run, { buffer = buf, desc = 'DS4: ' .. desc, nowait = true })
  end
end

---@param buf integer
function M.common(buf)
  vim.bo[buf].buftype = 'nofile'
  vim.bo[buf].bufhidden = 'hide'
  vim.bo[buf].swapfile = false
  vim.bo[buf].buflisted = false
  vim.bo[buf].filetype = 'ds4'
  if not pcall(vim.treesitter.start, buf, 'markdown') then
    vim.bo[buf].syntax = 'markdown'
  end
  local keys = config.values.keys
  if keys.stop then
    require('ds4.interrupt').map(buf, keys.stop, function()
      require('ds4').stop()
    end)
  end
  M.map(buf, 'n', keys.close, M.close, 'close')
end

---@param window integer
local function dress(window)
  local options = vim.wo[window][0]
  options.wrap, options.linebreak = true, true
  options.number, options.relativenumber, options.signcolumn = false, false, 'no'
  options.foldmethod, options.foldexpr = 'expr', "v:lua.require'ds4.view'.foldexpr(v:lnum)"
  options.foldtext = "v:lua.require'ds4.view'.foldtext()"
  options.foldlevel, options.foldenable = 0, true
  options.winfixwidth = true
end

---Goes to what the cursor's line is about; elsewhere opens or closes the fold.
local function jump()
  local target = transcript and transcript.targets[vim.api.nvim_win_get_cursor(0)[1]]
  if target then
    require('ds4.jump').to(target)
  else
    pcall(vim.cmd.normal, { 'za', bang = true })
  end
end

---@return ds4.Transcript
local function ensure()
  if transcript and M.buffer() then
    return transcript
  elseif transcript then
    -- One that was unloaded has lost its text and its options, and still has its name.
    pcall(vim.api.nvim_buf_delete, transcript.writer.buf, { force = true })
  end
  local buf = M.create(SESSION)
  M.map(buf, 'n', config.values.keys.jump, jump, 'go to what the line is about')
  local made = Transcript.new(buf)
  transcript = made
  made:open(nil)
  M.load()
  return made
end

---Makes the folds that could not be made while the user was inserting.
local function refold()
  if not transcript or not transcript.writer.folds_due then
    return
  end
  transcript.writer.folds_due = false
  for _, window in ipairs(vim.fn.win_findbuf(transcript.writer.buf)) do
    vim.api.nvim_win_call(window, function()
      vim.cmd.normal({ 'zX', bang = true })
    end)
  end
end

vim.api.nvim_create_autocmd('InsertLeave', {
  group = vim.api.nvim_create_augroup('ds4.view', { clear = true }),
  callback = refold,
})

---`:edit ds4://session`: shows the one buffer there is of it.
---@param buf integer that the command made
function M.adopt(buf)
  local shown = ensure().writer.buf
  vim.schedule(function()
    for _, window in ipairs(vim.fn.win_findbuf(buf)) do
      vim.api.nvim_win_set_buf(window, shown)
      dress(window)
    end
    pcall(vim.api.nvim_buf_delete, buf, { force = true })
  end)
end

---Asks for the server's current session and its last turns; a server that has none says so with nil.
---@param done fun(session?: string, history: table[], status: table)
local function ask_current(done)
  client.request('ds4.status', nil, function(_, status)
    local id = status and status.session and status.session.sessionId
    if not status or not id then
      return status and done(nil, {}, status)
    end
    client.request('ds4.showHistory', { sessionId = id, turns = config.values.turns }, function(_, result)
      if result then
        done(id, result.history, status)
      end
    end)
  end)
end

---Shows the current session from its history, where it has one. Starts the server.
function M.load()
  ask_current(function(id, entries, status)
    -- A turn that has begun meanwhile is shown already.
    if id and transcript and not transcript.session then
      M.show(id, entries)
      M.status(status)
    end
  end)
end

---Shows the server's current session, where anything is shown.
function M.follow()
  if M.buffer() then
    ask_current(function(id, entries, status)
      M.show(id, entries)
      M.status(status)
    end)
  end
end

---Takes a result of `ds4.status`: the prompts that wait.
---@param status table
function M.status(status)
  if not transcript then
    return
  end
  local session = transcript.session or (status.session and status.session.sessionId)
  local queue = vim.tbl_filter(function(prompt)
    return prompt.sessionId == session
  end, status.queue)
  transcript:wait(queue)
end

---Shows a session from its history.
---@param session? string
---@param history? table[]
function M.show(session, history)
  local shown = ensure()
  shown:open(session)
  require('ds4.history').show(shown, history or {})
  shown.writer:flush()
  if session then
    state.now.session = session
  end
end

---Takes an event of the server. Where the session's buffer does not exist there is nothing to show.
---@param event ds4.Event
function M.event(event)
  if not transcript or not M.buffer() then
    return
  end
  if event.kind == 'turn.start' and event.sessionId ~= transcript.session then
    if transcript.session or event.turn > 1 then
      transcript:open(event.sessionId)
    end
    transcript.session = event.sessionId
  end
  if event.sessionId == transcript.session or not transcript.session then
    transcript:event(event)
  end
end

state.subscribe(M.event)
state.watch(M.status)

---The buffer's window in this tab page.
---@param buf? integer
---@return integer?
function M.window_of(buf)
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    if buf and vim.api.nvim_win_get_buf(window) == buf then
      return window
    end
  end
  return nil
end

---Shows the session and its prompt; the focus stays where it is.
function M.open()
  local shown = ensure()
  local before = vim.api.nvim_get_current_win()
  local window = M.window_of(shown.writer.buf)
  if not window then
    local values = config.values
    local vertical = values.position == 'right' or values.position == 'left'
    local whole = vertical and vim.o.columns or vim.o.lines
    local size = math.floor(values.size < 1 and whole * values.size or values.size)
    window = vim.api.nvim_open_win(shown.writer.buf, false, {
      split = values.position,
      win = -1,
      width = vertical and size or nil,
      height = not vertical and size or nil,
    })
    dress(window)
  end
  require('ds4.compose').open(window)
  vim.api.nvim_win_set_cursor(window, { vim.api.nvim_buf_line_count(shown.writer.buf), 0 })
  vim.api.nvim_set_current_win(before)
end

function M.close()
  for _, buf in ipairs({ require('ds4.compose').buffer(), M.buffer() }) do
    local window = M.window_of(buf)
    if window and #vim.api.nvim_tabpage_list_wins(0) > 1 then
      vim.api.nvim_win_close(window, true)
    end
  end
end

---The session's buffer, where there is one.
---@return integer?
function M.buffer()
  local buf = transcript and transcript.writer.buf
  return buf and vim.api.nvim_buf_is_loaded(buf) and buf or nil
end

---Whether something was said that is not yet in the buffer.
---@return boolean
function M.pending()
  return transcript ~= nil and transcript.writer:pending()
end

---@return boolean
function M.is_open()
  return M.window_of(M.buffer()) ~= nil
end

---@param line integer
---@return string
function M.foldexpr(line)
  return transcript and transcript.writer.levels[line] or '0'
end

---@return string
function M.foldtext()
  local first = vim.api.nvim_buf_get_lines(0, vim.v.foldstart - 1, vim.v.foldstart, true)[1] or ''
  return ('  ▸ %s (%d)'):format(vim.trim(first):gsub('%*', ''), vim.v.foldend - vim.v.foldstart)
end

return M
