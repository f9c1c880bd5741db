---@meta
-- What the plugin uses of libuv, whose types Neovim does not ship.

---@class ds4.Stat
---@field mtime { sec: integer, nsec: integer }
---@field size integer

---@class uv
---@field fs_stat fun(path: string): ds4.Stat?
---@field fs_lstat fun(path: string): ds4.Stat?
---@field fs_realpath fun(path: string): string?
---@field hrtime fun(): integer
---@field kill fun(pid: integer, signal: string): integer?
---@field new_timer fun(): uv_timer?

---@class uv_timer
---@field start fun(self: uv_timer, timeout: integer, again: integer, callback: fun())
---@field stop fun(self: uv_timer)
---@field close fun(self: uv_timer)
