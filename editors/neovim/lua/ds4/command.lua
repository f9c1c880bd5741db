-- `:DS4`, its subcommands and their completion.

local M = {}

---@class ds4.Invocation
---@field rest string what follows the subcommand
---@field bang boolean
---@field context? ds4.Place[] of the range

---@class ds4.Subcommand
---@field run fun(invocation: ds4.Invocation)
---@field complete? fun(lead: string): string[]

---Milliseconds that completion may wait for the server.
local PATIENCE = 500

---@param command string
---@param arguments? table
---@return table?
local function ask_now(command, arguments)
  local client = require('ds4.client').get()
  if not client or not client.initialized then
    return nil
  end
  local params = { command = command, arguments = { arguments or vim.empty_dict() } }
  local answer = client:request_sync('workspace/executeCommand', params, PATIENCE)
  return answer and answer.result
end

---@return string[]
local function sessions()
  local result = ask_now('ds4.listSessions')
  return vim.tbl_map(function(session)
    return session.sessionId
  end, result and result.sessions or {})
end

---@param text string
---@return integer?
local function number(text)
  return text:match('^%d+$') and tonumber(text) --[[@as integer]] or nil
end

---@param lines string[]
local function show(lines)
  vim.api.nvim_echo(
    vim.tbl_map(function(line)
      return { line .. '\n' }
    end, lines),
    true,
    {}
  )
end

---@param status table
---@return string[]
local function status_lines(status)
  local model = status.model and status.model.name or 'none'
  local used = status.context
  local lines = {
    ('state    %s'):format(status.state),
    ('model    %s'):format(model),
    ('context  %d of %d tokens (%.1f %%)'):format(used.used, used.size, used.percent),
    ('speed    %.1f tok/s'):format(status.generation.tokensPerSecond),
    ('session  %s'):format(status.session and status.session.sessionId or 'none'),
    ('queue    %d prompts'):format(#status.queue),
    ('jobs     %d'):format(#status.jobs),
  }
  if status.error then
    lines[#lines + 1] = 'error    ' .. status.error
  end
  return lines
end

---@param callback fun(result: table)
---@return ds4.Callback
local function unless_failed(callback)
  return function(problem, result)
    if problem then
      vim.notify('ds4: ' .. problem.message, vim.log.levels.ERROR)
    elseif result then
      callback(result)
    end
  end
end

---@param rest string
local function jobs(rest)
  local client = require('ds4.client')
  local job = rest:match('^stop%s+(%d+)$')
  local list = unless_failed(function(result)
    local lines = vim.tbl_map(function(each)
      local command = each.command:gsub('\n.*', ' …')
      return ('%d  %s  %.0f s  %s'):format(each.job, each.state, each.elapsed, command)
    end, result.jobs)
    show(#lines > 0 and lines or { 'No jobs.' })
  end)
  if job then
    client.request('ds4.stopJob', { job = tonumber(job) }, list)
  else
    client.request('ds4.listJobs', nil, list)
  end
end

---@type table<string, ds4.Subcommand>
M.subcommands = {
  prompt = {
    run = function(invocation)
      if invocation.rest == '' then
        require('ds4').compose(invocation.context)
      else
        require('ds4').prompt(invocation.rest, { context = invocation.context })
      end
    end,
  },
  stop = {
    run = function(invocation)
      require('ds4').stop(invocation.bang)
    end,
  },
  compact = {
    run = function(invocation)
      require('ds4').compact(invocation.rest)
    end,
  },
  new = {
    run = function(invocation)
      require('ds4').new(invocation.rest)
    end,
  },
  switch = {
    run = function(invocation)
      require('ds4').switch(invocation.rest)
    end,
    complete = sessions,
  },
  fork = {
    run = function(invocation)
      require('ds4').fork(number(invocation.rest))
    end,
  },
  history = {
    run = function(invocation)
      require('ds4').history(number(invocation.rest))
    end,
  },
  undo = {
    run = function(invocation)
      require('ds4').undo(number(invocation.rest))
    end,
  },
  status = {
    run = function()
      require('ds4.client').request(
        'ds4.status',
        nil,
        unless_failed(function(status)
          require('ds4.state').take_status(status)
          show(status_lines(status))
        end)
      )
    end,
  },
  queue = {
    run = function()
      require('ds4.queue').choose()
    end,
  },
  jobs = {
    run = function(invocation)
      jobs(invocation.rest)
    end,
    complete = function()
      return { 'stop' }
    end,
  },
  log = {
    run = function()
      vim.cmd.tabnew(vim.fn.fnameescape(vim.lsp.log.get_filename()))
      vim.cmd.normal({ 'G', bang = true })
    end,
  },
  model = {
    run = function(invocation)
      require('ds4').model(vim.fs.normalize(invocation.rest))
    end,
    complete = function(lead)
      return vim.fn.getcompletion(lead, 'file')
    end,
  },
}

local function toggle()
  local view, missing = require('ds4.view'), require('ds4.client').missing()
  if view.is_open() then
    return view.close()
  end
  view.open()
  if missing then
    vim.notify('ds4: ' .. missing, vim.log.levels.ERROR)
  end
end

---@param command vim.api.keyset.create_user_command.command_args
function M.run(command)
  local name, rest = command.args:match('^(%S+)%s*(.*)$')
  if not name or not rest then
    return toggle()
  end
  local subcommand = M.subcommands[name]
  if not subcommand then
    local names = table.concat(vim.fn.sort(vim.tbl_keys(M.subcommands)), ', ')
    return vim.notify(('ds4: there is no :DS4 %s. There are: %s'):format(name, names), vim.log.levels.ERROR)
  end
  local context
  if command.range > 0 then
    context = require('ds4').context(vim.api.nvim_get_current_buf(), command.line1, command.line2)
  end
  subcommand.run({ rest = rest, bang = command.bang, context = context })
end

---@param lead string
---@param line string
---@param position integer
---@return string[]
function M.complete(lead, line, position)
  local words = line:sub(1, position):match('DS4!?%s+(.*)$') or ''
  local name, rest = words:match('^(%S+)%s+(.*)$')
  local candidates
  if not name or not rest then
    candidates = vim.fn.sort(vim.tbl_keys(M.subcommands))
  elseif rest:find('%s') then
    candidates = {}
  else
    local subcommand = M.subcommands[name]
    candidates = subcommand and subcommand.complete and subcommand.complete(lead) or {}
  end
  return vim.tbl_filter(function(candidate)
    return vim.startswith(candidate, lead)
  end, candidates)
end

return M
