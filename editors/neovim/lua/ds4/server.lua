-- The server as Neovim's LSP client sees it: command, capabilities, handlers.

local client = require('ds4.client')
local config = require('ds4.config')

local M = {}

---@param code integer
---@param signal integer
local function on_exit(code, signal)
  vim.schedule(function()
    if vim.v.exiting ~= vim.NIL then
      return
    end
    local how = signal ~= 0 and ('signal %d'):format(signal) or ('status %d'):format(code)
    local problem = { message = ('The server ended with %s. :DS4 log may say why.'):format(how) }
    client.ended(problem)
    require('ds4.state').stopped()
    require('ds4.progress').stopped()
    require('ds4.ask').withdraw()
    if code ~= 0 then
      vim.notify('ds4: ' .. problem.message, vim.log.levels.ERROR)
    end
  end)
end

---@param started vim.lsp.Client
local function on_init(started)
  local files = require('ds4.files')
  local group = vim.api.nvim_create_augroup('ds4.client', { clear = true })
  vim.api.nvim_create_autocmd({ 'BufReadPost', 'BufWritePost', 'FileChangedShellPost' }, {
    group = group,
    callback = function(event)
      files.agree(event.buf)
    end,
  })
  vim.api.nvim_create_autocmd('BufWipeout', {
    group = group,
    callback = function(event)
      files.forget(event.buf)
    end,
  })
  require('ds4.progress').watch(started.id, group)
  vim.schedule(function()
    client.wake(started)
  end)
end

---What `lsp/ds4.lua` gives to Neovim.
---@return vim.lsp.Config
function M.config()
  return {
    cmd = config.values.cmd,
    settings = { ds4 = config.values.settings },
    root_dir = function(buf, on_dir)
      -- Only real files are documents to the server.
      if client.is_document(buf) then
        on_dir(client.root(buf))
      end
    end,
    root_markers = config.values.root_markers,
    -- One model in memory: all buffers share one server, in the workspace it was started for.
    reuse_client = function(running, wanted)
      return running.name == wanted.name and not running:is_stopped()
    end,
    capabilities = {
      workspace = {
        textDocumentContent = vim.empty_dict(),
        workspaceEdit = {
          documentChanges = true,
          resourceOperations = { 'create' },
          changeAnnotationSupport = { groupsOnLabel = true },
        },
      },
      experimental = {
        serverStatusNotification = true,
        ds4 = { events = true, guardedApply = true, saveDocument = true, editCommand = 'ds4.nvim.edit' },
      },
    },
    commands = {
      ['ds4.nvim.edit'] = function(command)
        require('ds4').edit_here(command.arguments[1])
      end,
      ['ds4.prompt'] = function(command)
        local arguments = command.arguments[1]
        require('ds4').prompt(arguments.text, { context = arguments.context })
      end,
    },
    handlers = {
      ['ds4/event'] = function(_, event)
        require('ds4.state').event(event)
      end,
      ['ds4/applyGuardedEdit'] = require('ds4.edits').on_guarded,
      ['ds4/saveDocument'] = require('ds4.edits').on_save,
      ['workspace/applyEdit'] = require('ds4.edits').on_apply,
      ['window/showMessageRequest'] = require('ds4.ask').on_request,
      ['$/cancelRequest'] = require('ds4.ask').withdraw,
      ['experimental/serverStatus'] = function(_, status)
        require('ds4.state').health(status)
      end,
    },
    before_init = function(params, resolved)
      params.initializationOptions = vim.tbl_get(resolved, 'settings', 'ds4') or vim.empty_dict()
    end,
    on_init = on_init,
    on_attach = function(_, buf)
      require('ds4.files').agree(buf)
    end,
    on_exit = on_exit,
    flags = { debounce_text_changes = 50, exit_timeout = false },
  }
end

return M
