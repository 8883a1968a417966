'use strict'
// The curve: move the slider to a rate, read the bursts, choose one, copy the limit. All numbers are those of the
// report; nothing is computed here.
const data = JSON.parse(document.getElementById('data').textContent)
const get = (id) => document.getElementById(id)
const svgNamespace = 'http://www.w3.org/2000/svg'
const points = data.points
const state = { point: 0, share: 0, snippet: 0 }

const number = (n) => n.toLocaleString('en-US')
const percent = (part, whole) => {
  if (whole === 0) return ''
  const share = (100 * part) / whole
  if (part === 0) return '0 %'
  if (share < 0.01) return '<0.01 %'
  if (part < whole && share > 99.99) return '>99.99 %'
  return `${share.toFixed(share < 1 ? 2 : 1)} %`
}
const shareName = (share) => (share === data.shares.length - 1 ? 'all clients' : `${data.shares[share]} of clients`)

const make = (name, attributes = {}, parent = undefined, text = undefined) => {
  const element = document.createElementNS(svgNamespace, name)
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value)
  if (text !== undefined) element.textContent = text
  if (parent) parent.append(element)
  return element
}

// Both axes are logarithmic: from a rate to twice the rate is as far everywhere.
const chart = get('chart')
let scale
const draw = () => {
  const width = Math.max(chart.clientWidth, 260)
  const height = width < 520 ? 280 : 380
  const margin = { left: 46, right: data.shares.some((s) => s.length > 6) ? 104 : 66, top: 14, bottom: 44 }
  const logs = points.map((p) => Math.log(p.perSecond))
  const [x0, x1] = [logs[0], Math.max(logs.at(-1), logs[0] + 1e-9)]
  const highest = Math.max(...points.map((p) => Math.max(...p.bursts)), 10)
  const y1 = Math.log10(highest) * 1.02
  const x = (i) => margin.left + ((logs[i] - x0) / (x1 - x0)) * (width - margin.left - margin.right)
  const y = (burst) => height - margin.bottom - (Math.log10(Math.max(burst, 1)) / y1) * (height - margin.top - margin.bottom)
  scale = { x, y, width, height, margin }

  const svg = make('svg', { viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-labelledby': 'chart-title' })
  make('title', { id: 'chart-title' }, svg, 'For each rate, the burst that clients need never to be denied anything. The table beside it has the numbers.')
  for (let power = 0; power <= y1; power++) {
    make('line', { class: 'grid', x1: margin.left, x2: width - margin.right, y1: y(10 ** power), y2: y(10 ** power) }, svg)
    make('text', { x: margin.left - 8, y: y(10 ** power) + 4, 'text-anchor': 'end' }, svg, number(10 ** power))
  }
  make('text', { x: 0, y: 10 }, svg, 'burst')
  let last = -Infinity
  for (let i = 0; i < points.length; i++) {
    const isEnd = i === points.length - 1
    if (x(i) - last < 58 && !isEnd) continue
    if (!isEnd && x(points.length - 1) - x(i) < 58) continue
    last = x(i)
    make('line', { class: 'axis', x1: x(i), x2: x(i), y1: height - margin.bottom, y2: height - margin.bottom + 5 }, svg)
    make('text', { x: x(i), y: height - margin.bottom + 19, 'text-anchor': 'middle' }, svg, points[i].rate)
  }
  make('text', { x: (margin.left + width - margin.right) / 2, y: height - 6, 'text-anchor': 'middle' }, svg, 'rate')
  make('line', { class: 'axis', x1: margin.left, x2: width - margin.right, y1: height - margin.bottom, y2: height - margin.bottom }, svg)
  const ends = []
  for (let s = data.shares.length - 1; s >= 0; s--) {
    const path = points.map((p, i) => `${i ? 'L' : 'M'}${x(i).toFixed(1)} ${y(p.bursts[s]).toFixed(1)}`).join('')
    make('path', { class: `line c${s}`, d: path }, svg)
    ends.push({ share: s, at: y(points.at(-1).bursts[s]) })
  }
  ends.sort((a, b) => a.at - b.at)
  for (let i = 1; i < ends.length; i++) ends[i].at = Math.max(ends[i].at, ends[i - 1].at + 15)
  const over = ends.at(-1).at - (height - margin.bottom)
  if (over > 0) {
    ends.at(-1).at -= over
    for (let i = ends.length - 2; i >= 0; i--) ends[i].at = Math.min(ends[i].at, ends[i + 1].at - 15)
  }
  for (const end of ends) {
    make('rect', { class: `f${end.share}`, x: width - margin.right + 10, y: end.at - 4, width: 8, height: 8, rx: 2 }, svg)
    make('text', { class: 'label', x: width - margin.right + 23, y: end.at + 4 }, svg, end.share === data.shares.length - 1 ? 'all' : data.shares[end.share])
  }
  scale.marks = make('g', {}, svg)
  chart.replaceChildren(svg)
  mark()
}

// mark shows what is chosen in the chart.
const mark = () => {
  const { x, y, height, margin, marks } = scale
  marks.replaceChildren()
  const at = x(state.point)
  make('line', { class: 'now', x1: at, x2: at, y1: margin.top, y2: height - margin.bottom }, marks)
  for (let s = data.shares.length - 1; s >= 0; s--) make('circle', { class: `dot f${s}`, cx: at, cy: y(points[state.point].bursts[s]), r: 5 }, marks)
  make('circle', { class: 'chosen', cx: at, cy: y(points[state.point].bursts[state.share]), r: 8.5 }, marks)
}

const fill = (text) => {
  const p = points[state.point]
  const unit = { s: 'time.Second', m: 'time.Minute', h: 'time.Hour', d: '24*time.Hour' }[p.unit]
  return text.replaceAll('{count}', p.count).replaceAll('{unit}', p.unit).replaceAll('{burst}', p.bursts[state.share]).replaceAll('{goUnit}', unit)
}

const show = () => {
  const p = points[state.point]
  get('rate').value = state.point
  get('rate').setAttribute('aria-valuetext', p.rate)
  get('rate-text').value = p.rate
  data.shares.forEach((_, s) => {
    const row = get(`row-${s}`)
    row.classList.toggle('on', s === state.share)
    row.querySelector('input').checked = s === state.share
    const cells = row.querySelectorAll('td')
    cells[0].textContent = number(p.bursts[s])
    cells[1].textContent = percent(p.denied[s], data.requests)
    cells[2].textContent = number(p.clients[s])
  })
  const words = `RATE ${p.rate} BURST ${p.bursts[state.share]}`
  const denied = p.denied[state.share]
  const said = get('said')
  const bold = document.createElement('b')
  bold.textContent = words
  said.replaceChildren(bold, denied === 0
    ? ' would have denied nobody anything: it may be the rate of somebody who should be denied.'
    : ` would have denied ${number(denied)} requests (${percent(denied, data.requests)}) of ${number(p.clients[state.share])} clients (${percent(p.clients[state.share], data.clients)}).`)
  get('snippet').textContent = fill(data.snippets[state.snippet].text)
  document.querySelectorAll('.suggested button').forEach((button) => {
    button.setAttribute('aria-pressed', String(Number(button.dataset.point) === state.point && Number(button.dataset.share) === state.share))
  })
  get('copied').textContent = ''
  if (scale) mark()
}

const choose = (changes) => {
  Object.assign(state, changes)
  show()
}

get('rate').max = points.length - 1
get('rate').addEventListener('input', () => choose({ point: Number(get('rate').value) }))
document.querySelectorAll('input[name=share]').forEach((radio) => radio.addEventListener('change', () => choose({ share: Number(radio.value) })))
document.querySelectorAll('.suggested button').forEach((button) => {
  button.addEventListener('click', () => choose({ point: Number(button.dataset.point), share: Number(button.dataset.share) }))
})

const tabs = [...document.querySelectorAll('.tabs button')]
const open = (index) => {
  tabs.forEach((tab, i) => {
    tab.setAttribute('aria-selected', String(i === index))
    tab.tabIndex = i === index ? 0 : -1
  })
  get('panel').setAttribute('aria-labelledby', tabs[index].id)
  choose({ snippet: index })
}
tabs.forEach((tab, i) => {
  tab.addEventListener('click', () => open(i))
  tab.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    if (!step) return
    event.preventDefault()
    const next = (i + step + tabs.length) % tabs.length
    open(next)
    tabs[next].focus()
  })
})

// A page that was opened as a file may have no clipboard. Then what is selected is copied, as by hand.
const copy = async (text) => {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    const range = document.createRange()
    range.selectNodeContents(get('snippet'))
    const selection = getSelection()
    selection.removeAllRanges()
    selection.addRange(range)
    return document.execCommand('copy')
  }
}
get('copy').addEventListener('click', async () => {
  get('copied').textContent = (await copy(get('snippet').textContent)) ? 'Copied.' : 'Select it and copy it by hand.'
})

// In the chart, the nearest rate is chosen, and with a click also the nearest line.
const nearest = (event, withLine) => {
  const box = chart.getBoundingClientRect()
  const [px, py] = [((event.clientX - box.left) / box.width) * scale.width, event.clientY - box.top]
  let point = 0
  for (let i = 1; i < points.length; i++) if (Math.abs(scale.x(i) - px) < Math.abs(scale.x(point) - px)) point = i
  const changes = { point }
  if (withLine) {
    changes.share = 0
    data.shares.forEach((_, s) => {
      const distance = (of) => Math.abs(scale.y(points[point].bursts[of]) - py)
      if (distance(s) < distance(changes.share)) changes.share = s
    })
  }
  choose(changes)
}
let isDragged = false
chart.addEventListener('pointerdown', (event) => {
  isDragged = true
  nearest(event, true)
})
chart.addEventListener('pointermove', (event) => {
  if (isDragged) nearest(event, false)
})
for (const end of ['pointerup', 'pointercancel']) addEventListener(end, () => { isDragged = false })

get('interactive').hidden = false
const first = data.suggested
state.point = first.point
state.share = first.share
open(0)
new ResizeObserver(draw).observe(chart)

// A table that is wider than its place says so in words, too: on a phone nobody sees a bar.
const cue = () => document.querySelectorAll('.scroll').forEach((box) => box.classList.toggle('more', box.scrollWidth > box.clientWidth + 1))
new ResizeObserver(cue).observe(document.documentElement)
document.querySelectorAll('details').forEach((details) => details.addEventListener('toggle', cue))
cue()
