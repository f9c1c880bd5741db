-- The server's configuration, found here by `vim.lsp.enable('ds4')`. To change a field, use
-- `vim.lsp.config('ds4', { … })`, or `require('ds4').setup()`.
return require('ds4.server').config()
