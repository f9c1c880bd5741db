-- CRC-32 (ISO-HDLC), as `zlib.crc32` computes it.

local bit = require('bit')
local band, bxor, rshift, bnot = bit.band, bit.bxor, bit.rshift, bit.bnot

---@type table<integer, integer>
local byte_table = {}
for byte = 0, 255 do
  local value = byte
  for _ = 1, 8 do
    value = band(value, 1) == 1 and bxor(rshift(value, 1), 0xEDB88320) or rshift(value, 1)
  end
  byte_table[byte] = value
end

---@param text string bytes
---@return string tag eight lower-case hex digits
return function(text)
  local value = -1
  for index = 1, #text do
    value = bxor(rshift(value, 8), byte_table[band(bxor(value, text:byte(index)), 0xFF)])
  end
  return bit.tohex(bnot(value))
end
