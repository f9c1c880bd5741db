-- A real Neovim with the plugin, driven as its user would: keys go in by `nvim_input`.

local picture = require('picture')

local plugin = vim.fs.dirname(vim.fs.dirname(vim.fs.abspath(debug.getinfo(1, 'S').source:sub(2))))

---Milliseconds for what a model does on a busy machine.
local LONG = 240000
local count = 0

---@class ds4.test.Editor
---@field channel integer
---@field pid integer
---@field root string of the workspace, the state and the scripts
---@field workspace string
local Editor = {}
Editor.__index = Editor

---A block with one call, as a model writes it.
---@param name string
---@param arguments table<string, string|integer>
---@return string
function Editor.call(name, arguments)
  local lines = { '<｜DSML｜tool_calls>', ('<｜DSML｜invoke name="%s">'):format(name) }
  for _, key in ipairs(vim.fn.sort(vim.tbl_keys(arguments))) do
    local value = arguments[key]
    local form = '<｜DSML｜parameter name="%s" string="%s">%s</｜DSML｜parameter>'
    lines[#lines + 1] = form:format(key, type(value) == 'string', value)
  end
  vim.list_extend(lines, { '</｜DSML｜invoke>', '</｜DSML｜tool_calls>' })
  return table.concat(lines, '\n')
end

---@return ds4.test.Editor
function Editor.new()
  count = count + 1
  local root = vim.fs.joinpath(vim.uv.fs_realpath(vim.fn.fnamemodify(vim.fn.tempname(), ':h')), 'editor' .. count)
  vim.fn.mkdir(vim.fs.joinpath(root, 'ws'), 'p')
  return setmetatable({ root = root, workspace = vim.fs.joinpath(root, 'ws') }, Editor)
end

---@param name string
---@param text string
---@return string path
function Editor:file(name, text)
  local path = vim.fs.joinpath(self.workspace, name)
  vim.fn.mkdir(vim.fs.dirname(path), 'p')
  local file = assert(io.open(path, 'wb'))
  file:write(text)
  file:close()
  return path
end

---@param name string
---@return string?
function Editor:read(name)
  local file = io.open(vim.fs.joinpath(self.workspace, name), 'rb')
  local text = file and file:read('*a')
  if file then
    file:close()
  end
  return text
end

---Starts Neovim. `replies` choose the model's tokens: texts, or whole entries.
---@param options { replies?: (string|table)[], setup?: table, settings?: table, env?: table<string, string> }
function Editor:start(options)
  local script = vim.fs.joinpath(self.root, 'script.jsonl')
  local lines = vim.tbl_map(function(reply)
    return vim.json.encode(type(reply) == 'string' and { purpose = 'turn', text = reply } or reply)
  end, options.replies or {})
  vim.fn.writefile(lines, script)
  local env = vim.tbl_extend('force', {
    DS4_LSP_SCRIPT = script,
    -- Shared by all: what the server keeps of its evaluated system prompt is used again.
    XDG_STATE_HOME = vim.env.DS4_TEST_STATE or vim.fs.joinpath(vim.fs.dirname(self.root), 'state'),
    XDG_CONFIG_HOME = vim.fs.joinpath(self.root, 'config'),
    XDG_DATA_HOME = vim.fs.joinpath(self.root, 'data'),
    GOMP_SPINCOUNT = '1000',
  }, options.env or {})
  local command = { vim.v.progpath, '--embed', '--headless', '--clean', '-n', '-i', 'NONE' }
  vim.list_extend(command, { '--cmd', 'set termguicolors columns=110 lines=34 rtp^=' .. plugin })
  self.channel = vim.fn.jobstart(command, { rpc = true, env = env, cwd = self.workspace })
  assert(self.channel > 0, 'Neovim does not start')
  self.pid = vim.fn.jobpid(self.channel)
  local settings = vim.tbl_deep_extend('force', {
    model = { contextSize = 4096, threads = 1 },
    sampling = { temperature = 0 },
  }, options.settings or {})
  local setup = vim.tbl_extend('force', {
    cmd = { vim.env.DS4_TEST_PYTHON, '-m', 'ds4_lsp' },
    settings = settings,
    open = false,
  }, options.setup or {})
  self:lua(
    [[
    local setup, collect = ...
    _G.told, _G.events, _G.asked = {}, {}, {}
    vim.notify = function(message) table.insert(_G.told, message) end
    local select = vim.ui.select
    vim.ui.select = function(items, options, choose)
      local picture = assert(loadstring(collect))()
      table.insert(_G.asked, { items = items, prompt = options.prompt, screen = _G.screen(), picture = picture })
      return select(items, options, choose)
    end
    _G.seen = function(kind)
      return vim.iter(_G.events):any(function(event) return event.kind == kind end)
    end
    _G.screen = function()
      vim.cmd.redraw()
      local rows = {}
      for row = 1, vim.o.lines do
        local cells = {}
        for column = 1, vim.o.columns do
          cells[column] = vim.fn.screenstring(row, column)
        end
        rows[row] = table.concat(cells):gsub('%s+$', '')
      end
      return table.concat(rows, '\n')
    end
    require('ds4').setup(setup)
    require('ds4.state').subscribe(function(event) table.insert(_G.events, event) end)
  ]],
    setup,
    picture.COLLECT
  )
end

---Runs Lua in the editor.
---@param code string
---@param ... any
---@return any
function Editor:lua(code, ...)
  return vim.rpcrequest(self.channel, 'nvim_exec_lua', code, { ... })
end

---@param command string
function Editor:command(command)
  vim.rpcrequest(self.channel, 'nvim_command', command)
end

---Types keys, as a user does.
---@param keys string
function Editor:type(keys)
  vim.rpcrequest(self.channel, 'nvim_input', keys)
end

---Types keys while the editor is busy, with something else to do after that: their input is taken in between.
---@param keys string
function Editor:type_while_busy(keys)
  local begun, sent = vim.fs.joinpath(self.root, 'begun'), vim.fs.joinpath(self.root, 'sent')
  vim.fn.delete(begun)
  vim.fn.delete(sent)
  local busy = [[
    local begun, sent = ...
    vim.schedule(function()
      vim.fn.writefile({}, begun)
      while not vim.uv.fs_stat(sent) do end
    end)
    vim.schedule(function() _G.done_after = true end)
  ]]
  vim.rpcnotify(self.channel, 'nvim_exec_lua', busy, { begun, sent })
  assert(
    vim.wait(LONG, function()
      return vim.uv.fs_stat(begun) ~= nil
    end, 5),
    'the editor does not get busy'
  )
  vim.rpcnotify(self.channel, 'nvim_input', keys)
  vim.fn.writefile({}, sent)
end

---@return { mode: string, blocking: boolean }
function Editor:mode()
  return vim.rpcrequest(self.channel, 'nvim_get_mode')
end

---Waits until an expression in the editor is true, and gives its value.
---@param expression string of Lua
---@param what? string
---@return any
function Editor:wait(expression, what)
  local value
  local function look()
    value = self:lua('return ' .. expression)
    return value ~= nil and value ~= vim.NIL and value ~= false
  end
  if not vim.wait(LONG, look, 30) then
    local facts = self:lua([[
      local log = vim.lsp.log.get_filename()
      return {
        told = _G.told,
        state = require('ds4.state').now,
        mode = vim.api.nvim_get_mode(),
        log = vim.fn.filereadable(log) == 1 and vim.fn.readfile(log, '', -5) or nil,
      }
    ]])
    facts.processes = self:descendants()
    error(('waited in vain for %s: %s'):format(what or expression, vim.inspect(facts)), 2)
  end
  return value
end

---Waits until the editor asks: the default `vim.ui.select` reads a number as a command line.
function Editor:wait_for_question()
  assert(
    vim.wait(LONG, function()
      return self:mode().mode == 'c'
    end, 30),
    'nothing was asked'
  )
end

---Sends a prompt without waiting for its end; `result()` does.
---@param text string
---@param options? table
function Editor:prompt(text, options)
  self:lua(
    [[
    local text, options = ...
    _G.result, _G.problem = nil, nil
    require('ds4').prompt(text, options, function(problem, result) _G.problem, _G.result = problem, result end)
  ]],
    text,
    options or vim.empty_dict()
  )
end

---@return table
function Editor:result()
  self:wait('_G.result or _G.problem', 'the end of the turn')
  local problem = self:lua('return _G.problem')
  assert(problem == vim.NIL or problem == nil, vim.inspect(problem))
  return self:lua('return _G.result')
end

---Runs a command of the server and waits for its result.
---@param command string
---@param arguments? table
---@return table
function Editor:request(command, arguments)
  self:lua(
    [[
    local command, arguments = ...
    _G.result, _G.problem = nil, nil
    require('ds4').request(command, arguments, function(problem, result) _G.problem, _G.result = problem, result end)
  ]],
    command,
    arguments or vim.empty_dict()
  )
  return self:result()
end

---Lines of the current buffer, or of one by its number.
---@param buf? integer
---@return string[]
function Editor:lines(buf)
  return vim.rpcrequest(self.channel, 'nvim_buf_get_lines', buf or 0, 0, -1, true)
end

---The session's buffer, with everything written that was said.
---@return string
function Editor:session()
  return self:lua([[
    local buf = require('ds4.view').buffer()
    vim.wait(500, function() return not require('ds4.view').pending() end)
    return table.concat(vim.api.nvim_buf_get_lines(buf, 0, -1, true), '\n')
  ]])
end

---Keeps the screen as a picture of the README, where pictures are to be renewed.
---@param name string
---@param screen? table one that was taken before
function Editor:picture(name, screen)
  if vim.env.DS4_UPDATE_SCREENSHOTS then
    local path = vim.fs.joinpath(plugin, 'screenshots', name .. '.svg')
    picture.write(screen or self:lua(picture.COLLECT), path)
  end
end

---Processes below the editor: servers, engines, jobs.
---@return integer[]
function Editor:descendants()
  local found, todo = {}, { self.pid }
  while #todo > 0 do
    local parent = tostring(table.remove(todo))
    local listed = vim.system({ 'ps', '-A', '-o', 'pid=,ppid=' }, { text = true }):wait().stdout or ''
    for child in listed:gmatch('(%d+) +' .. parent .. '\n') do
      found[#found + 1] = tonumber(child)
      todo[#todo + 1] = tonumber(child)
    end
  end
  return found
end

---@param pid integer
---@return boolean
function Editor.alive(pid)
  local state = vim.system({ 'ps', '-o', 'stat=', '-p', tostring(pid) }, { text = true }):wait().stdout or ''
  return state ~= '' and not vim.startswith(state, 'Z')
end

---Ends the editor in order.
function Editor:quit()
  if self.channel and self.pid and Editor.alive(self.pid) then
    pcall(vim.rpcnotify, self.channel, 'nvim_command', 'qa!')
    vim.fn.jobwait({ self.channel }, 10000)
  end
end

---Ends the editor, and removes its files.
function Editor:close()
  self:quit()
  vim.fn.delete(self.root, 'rf')
end

return Editor
