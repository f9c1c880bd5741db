std = 'luajit'
cache = false
max_line_length = 120
read_globals = { 'vim' }
-- Options are set through these.
globals = {
  'vim.g', 'vim.b', 'vim.w', 'vim.o', 'vim.bo', 'vim.wo', 'vim.go', 'vim.v', 'vim.env', 'vim.opt',
}
