-- Registers `:DS4`, the `<Plug>` mappings and the readers of `ds4:` buffers. Nothing of the plugin
-- is loaded, and no server started, before one of them is used.

if vim.g.loaded_ds4 then
  return
end
vim.g.loaded_ds4 = true

if vim.fn.has('nvim-0.11') == 0 then
  vim.notify('ds4: Neovim 0.11 or later is needed', vim.log.levels.ERROR)
  return
end

vim.api.nvim_create_user_command('DS4', function(command)
  require('ds4.command').run(command)
end, {
  nargs = '*',
  bang = true,
  range = true,
  desc = 'The ds4 agent',
  complete = function(lead, line, position)
    return require('ds4.command').complete(lead, line, position)
  end,
})

---@param modes string|string[]
---@param name string
---@param run string|fun()
---@param desc string
local function plug(modes, name, run, desc)
  vim.keymap.set(modes, ('<Plug>(ds4-%s)'):format(name), run, { desc = 'DS4: ' .. desc })
end

plug('n', 'open', '<Cmd>DS4<CR>', 'show or hide the session')
plug('n', 'prompt', '<Cmd>DS4 prompt<CR>', 'write a prompt')
plug('x', 'prompt', ':DS4 prompt<CR>', 'write a prompt about the selection')
plug({ 'n', 'i' }, 'stop', '<Cmd>DS4 stop<CR>', 'stop')
plug('n', 'compact', '<Cmd>DS4 compact<CR>', 'compact the session')
plug('n', 'new', '<Cmd>DS4 new<CR>', 'new session')
plug('n', 'switch', '<Cmd>DS4 switch<CR>', 'choose a session')
plug('n', 'undo', '<Cmd>DS4 undo<CR>', "undo the last turn's edits")
plug('n', 'status', '<Cmd>DS4 status<CR>', 'what the server does')

local group = vim.api.nvim_create_augroup('ds4', { clear = true })
vim.api.nvim_create_autocmd('BufReadCmd', {
  group = group,
  pattern = '*ds4://session',
  callback = function(event)
    require('ds4.view').adopt(event.buf)
  end,
})
vim.api.nvim_create_autocmd('BufReadCmd', {
  group = group,
  pattern = '*ds4:/session/*',
  callback = function(event)
    require('ds4.document').read(event.buf, event.match:match('ds4:/session/.*') or event.match)
  end,
})
