-- The plugin's API. Every function starts the server where that is needed.

local M = {}

---Commands that make another session the current one.
local SESSION_CHANGES = {
  ['ds4.newSession'] = true,
  ['ds4.switchSession'] = true,
  ['ds4.forkSession'] = true,
  ['ds4.deleteSession'] = true,
}

---@class ds4.Place
---@field uri string
---@field range? { start: ds4.Position, ["end"]: ds4.Position } 0-based, in the client's encoding
---@field diagnostic? string

---@class ds4.PromptOptions
---@field context? ds4.Place[] what the prompt is about
---@field session? string the current one by default
---@field open? boolean show the session; the option `open` by default

---@param message string
---@param level? integer
local function tell(message, level)
  vim.notify('ds4: ' .. message, level or vim.log.levels.INFO)
end

---Runs a command, tells of its failure, and gives its result.
---@param command string
---@param arguments? table
---@param done? fun(result: table)
---@param token? string
local function run(command, arguments, done, token)
  require('ds4.client').request(command, arguments, function(problem, result)
    if problem then
      tell(problem.message, vim.log.levels.ERROR)
    elseif done and result then
      done(result)
    end
  end, token)
end

---Shows the last turns of a session.
---@param session? string the current one by default
---@param turns? integer
local function show_history(session, turns)
  local function show(id)
    run('ds4.showHistory', { sessionId = id, turns = turns or require('ds4.config').values.turns }, function(result)
      require('ds4.view').show(id, result.history)
    end)
  end
  require('ds4.view').open()
  if session then
    return show(session)
  end
  run('ds4.status', nil, function(status)
    show(status.session and status.session.sessionId)
  end)
end

---Does for a slash prompt what its command does here, the server having done its part.
---@param slash ds4.Slash
---@param result table
local function act(slash, result)
  if slash.name == 'new' then
    require('ds4.view').show(result.sessionId)
  elseif slash.name == 'switch' or slash.name == 'fork' then
    show_history(result.sessionId)
  elseif slash.name == 'history' then
    show_history(result.sessionId, tonumber(slash.rest) --[[@as integer?]])
  elseif result.text ~= '' then
    tell(result.text)
  end
end

---Sets options. Not needed for the defaults.
---@param options? table see |ds4-options|
function M.setup(options)
  local values = require('ds4.config').set(options)
  vim.lsp.config('ds4', {
    cmd = values.cmd,
    settings = { ds4 = values.settings },
    root_markers = values.root_markers,
  })
  if values.autostart then
    require('ds4.client').enable()
  end
end

---Sends a prompt. The callback gets the error, or the result when the turn ends.
---@param text string
---@param options? ds4.PromptOptions
---@param callback? ds4.Callback
function M.prompt(text, options, callback)
  options = options or {}
  local open = options.open
  if open == nil then
    open = require('ds4.config').values.open
  end
  if open then
    require('ds4.view').open()
  end
  local slash = require('ds4.slash').parse(text)
  local arguments = { text = text, sessionId = options.session, context = options.context }
  require('ds4.client').request('ds4.prompt', arguments, function(problem, result)
    if problem then
      tell(problem.message, vim.log.levels.ERROR)
    elseif result and slash then
      act(slash, result)
    end
    if callback then
      callback(problem, result)
    end
  end)
end

---Opens the prompt's window, about a place where one is given.
---@param context? ds4.Place[]
function M.compose(context)
  require('ds4.compose').compose(context)
end

---Asks for an instruction in one line, and prompts with it about the place.
---@param place ds4.Place
function M.edit_here(place)
  vim.ui.input({ prompt = 'DS4, edit: ' }, function(text)
    if text and vim.trim(text) ~= '' then
      M.prompt(text, { context = { place } })
    end
  end)
end

---Lines of a buffer as a prompt's context.
---@param buf integer
---@param first integer 1-based
---@param last integer 1-based, inclusive
---@return ds4.Place[]? context nil for a buffer that is not a file
function M.context(buf, first, last)
  if vim.api.nvim_buf_get_name(buf) == '' or vim.bo[buf].buftype ~= '' then
    return nil
  end
  local client = require('ds4.client').get()
  local encoding = (client and client.offset_encoding or 'utf-8') --[[@as 'utf-8'|'utf-16'|'utf-32']]
  local line = vim.api.nvim_buf_get_lines(buf, last - 1, last, true)[1] or ''
  return {
    {
      uri = vim.uri_from_bufnr(buf),
      range = {
        start = { line = first - 1, character = 0 },
        ['end'] = { line = last - 1, character = vim.str_utfindex(line, encoding) },
      },
    },
  }
end

---Stops what runs. A compaction that runs is cancelled alone, and the turn around it goes on, unless `all`.
---@param all? boolean
function M.stop(all)
  if not require('ds4.client').get() then
    return
  end
  if not all and require('ds4.progress').cancel_compaction() then
    return
  end
  run('ds4.interrupt')
end

---Compacts the current session.
---@param instructions? string what the summary should keep in mind
---@param callback? ds4.Callback
function M.compact(instructions, callback)
  local arguments = { instructions = instructions ~= '' and instructions or nil }
  local token = require('ds4.progress').compact_token()
  require('ds4.client').request('ds4.compact', arguments, function(problem, result)
    if problem then
      tell(problem.message, vim.log.levels.ERROR)
    elseif result and result.compacted then
      tell(('compacted: %d → %d tokens'):format(result.beforeTokens, result.afterTokens))
    elseif result then
      tell('not compacted: ' .. (result.reason or 'no reason given'))
    end
    if callback then
      callback(problem, result)
    end
  end, token)
end

---Starts a session and makes it the current one.
---@param title? string
function M.new(title)
  run('ds4.newSession', { title = title ~= '' and title or nil }, function(result)
    require('ds4.view').show(result.sessionId)
  end)
end

---Makes another session the current one; without an id, lets the user choose.
---@param id? string any unique prefix
function M.switch(id)
  if not id or id == '' then
    return M.choose()
  end
  local turns = require('ds4.config').values.turns
  run('ds4.switchSession', { sessionId = id, turns = turns }, function(result)
    require('ds4.view').show(result.sessionId, result.history)
    require('ds4.view').open()
  end)
end

---Lets the user choose a session.
function M.choose()
  run('ds4.listSessions', nil, function(result)
    vim.ui.select(result.sessions, {
      prompt = 'Switch to a session',
      format_item = function(session)
        local current = session.current and '* ' or '  '
        return ('%s%s  %s  (%d turns)'):format(current, session.sessionId:sub(1, 8), session.title, session.turns)
      end,
    }, function(session)
      if session then
        M.switch(session.sessionId)
      end
    end)
  end)
end

---Copies the current session, up to an event where one is given, and switches to the copy.
---@param seq? integer
function M.fork(seq)
  run('ds4.forkSession', { seq = seq }, function(result)
    M.switch(result.sessionId)
  end)
end

---Shows the last turns of the current session.
---@param turns? integer
function M.history(turns)
  show_history(nil, turns)
end

---Restores the files that a turn changed, the last one by default.
---@param turn? integer
function M.undo(turn)
  run('ds4.undoTurn', { turn = turn }, function(result)
    local count = #result.reverted
    local lines = { ('%d %s restored'):format(count, count == 1 and 'file' or 'files') }
    for _, skipped in ipairs(result.skipped) do
      lines[#lines + 1] = ('%s was left: %s'):format(vim.uri_to_fname(skipped.uri), skipped.reason)
    end
    tell(table.concat(lines, '\n'), #result.skipped > 0 and vim.log.levels.WARN or nil)
  end)
end

---@param path? string GGUF file; the configured one by default
function M.model(path)
  run('ds4.loadModel', { path = path ~= '' and path or nil }, function(result)
    tell('model: ' .. (result.model and result.model.name or 'none'))
  end)
end

---For 'statusline': state, progress, tokens a second, part of the context in use. Empty while no server runs.
---@return string
function M.statusline()
  return package.loaded['ds4.state'] and require('ds4.state').statusline() or ''
end

---Sends any command of the server.
---@param command string for example `ds4.exportSession`
---@param arguments? table
---@param callback? ds4.Callback
function M.request(command, arguments, callback)
  if not SESSION_CHANGES[command] then
    return require('ds4.client').request(command, arguments, callback)
  end
  require('ds4.client').request(command, arguments, function(problem, result)
    if result then
      require('ds4.view').follow()
    elseif problem and not callback then
      tell(problem.message, vim.log.levels.ERROR)
    end
    if callback then
      callback(problem, result)
    end
  end)
end

return M
