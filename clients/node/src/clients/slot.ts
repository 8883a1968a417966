// The slot of a key in a cluster, as the cluster specification defines it: CRC16 (XMODEM) of the key, or of its hash
// tag.

const table = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
  return crc
})

export function slotOf(key: string): number {
  const open = key.indexOf('{')
  const close = open < 0 ? -1 : key.indexOf('}', open + 1)
  let crc = 0
  for (const byte of Buffer.from(close > open + 1 ? key.slice(open + 1, close) : key)) {
    crc = ((crc << 8) & 0xffff) ^ (table[(crc >> 8) ^ byte] ?? 0)
  }
  return crc % 16384
}
