// Asks for the state every two seconds while somebody looks, and shows it.

import { $, bytesOf, clock, count, el, list, period, set, share, span } from './dom.js'
import { ask, Refused, offers, setUp } from './acts.js'

const every = 2000
let timer, asking = false, failed = 0, last

async function poll() {
	clearTimeout(timer)
	if (document.hidden || asking) return
	asking = true
	try {
		show(await ask('state', { filter: $('filter').value.trim() }))
		failed = 0
	} catch (error) {
		down(error)
	}
	asking = false
	if (!document.hidden) timer = setTimeout(poll, every)
}

function down(error) {
	failed++
	document.body.classList.add('down')
	const needsToken = error instanceof Refused && error.code === 401
	$('sign').hidden = !needsToken && !last?.has_token
	status('down', needsToken ? 'Sign in: from another machine the console needs the token.' : error instanceof Refused ? error.message
		: `The program does not answer, ${failed === 1 ? 'asking again' : `asked ${failed} times`}.`)
}

function status(is, text) {
	$('status').dataset.is = is
	set($('status'), text)
}

function show(s) {
	last = s
	document.body.classList.toggle('down', !s.redis.up)
	document.body.classList.toggle('acts', s.may_act)
	document.title = s.name
	set($('name'), s.name)
	$('sign').hidden = !s.has_token
	set($('sign'), s.may_act ? 'Sign out' : 'Sign in to act')
	set($('rights'), s.may_act ? 'You may act.' : s.has_token ? 'Reading only.' : 'Reading only: it was started without a token.')
	if (s.redis.up) status('up', `${s.redis.server} is read`)
	else status('down', `${s.redis.error}. What is below is from ${s.redis.address ? 'before' : 'nowhere'}; asking again.`)
	$('new-policy').hidden = !s.may_act
	pace(s)
	top('top', s.top, s)
	top('shadows', s.shadows, s)
	policies(s)
	rules(s.gateway)
	bans(s)
	leases(s)
	state(s)
	log(s)
	$('explain-s').hidden = !s.explains
}

function pace({ pace, redis }) {
	const n = pace.now, known = pace.lines.length > 0
	set($('total'), known ? count(n.total) : '–')
	set($('denied'), known ? share(n.denied, n.total) : '–')
	set($('shadowed'), known ? share(n.shadowed, n.total) : '–')
	set($('waiting'), redis.up ? count(redis.waiting) : '–')
	const points = pace.lines, highest = Math.max(1, ...points.map((p) => p.total))
	const end = points.at(-1)?.at_ms ?? 0, length = Math.max(60_000, end - (points[0]?.at_ms ?? 0))
	const x = (p) => (300 - ((end - p.at_ms) / length) * 300).toFixed(1)
	const y = (v) => (58 - (v / highest) * 55).toFixed(1)
	for (const name of ['total', 'denied', 'shadowed']) {
		const line = points.map((p) => `${x(p)} ${y(p[name])}`).join('L')
		const area = points.length > 1 && (name === 'shadowed' ? `M${line}` : `M${x(points[0])} 60L${line}L300 60Z`)
		$('chart').querySelector(`.${name}`).setAttribute('d', area || '')
	}
	$('chart').setAttribute('aria-label', known ? `Decisions in the last ${span(length)}: ${count(n.total)} a second now, at most ${count(highest)}, of which ${share(n.denied, n.total)} are denied` : 'No decisions yet')
}

const keyCell = (key, ...more) => el('td', {}, el('bdi', { class: 'key', text: key.text, title: key.bytes > 160 ? `${key.bytes} bytes` : undefined }), ...more)
// idOf tells keys apart whose shown part is the same.
const idOf = (key) => key.raw ?? key.text
const more = (text) => text && el('span', { class: 'more', text })

function top(id, { why, rows }, s) {
	set($(`${id}-why`), why ?? (rows.length ? '' : s.redis.up ? (id === 'top' ? 'No key was limited in the last minutes.' : 'No shadow would have denied a key in the last minutes.') : ''))
	$(id).classList.toggle('empty', !rows.length)
	list($(id).tBodies[0], rows, (r) => `${r.db} ${idOf(r.key)}`, (r) => el('tr', {},
		keyCell(r.key, more(r.here ? '' : r.key.raw ? `in database ${r.db}` : 'longer than CL.TOP shows')),
		el('td', { class: 'n', 'data-label': id === 'top' ? 'Denied' : 'Would be denied', text: count(r.count), title: r.off ? `at most ${r.off} too many` : undefined }),
		el('td', { 'data-label': 'State', text: r.state ? told(r.state) : '–' }),
		el('td', { class: 't', 'data-label': 'Listed since', text: clock(r.since_ms) }),
		acts('td', r.here ? onKey(r.key, r.state) : [], r.key)))
}

// acts are the buttons of a row, with what they do to what.
const acts = (tag, buttons, to) => el(tag, { class: 'acts', 'data-does': JSON.stringify([buttons.map((b) => b.dataset.act), to]) }, ...buttons)

const onKey = (key, state) => state?.banned_until_ms > state?.now_ms
	? [offers.lift(key), offers.reset(key)] : [offers.ban(key), offers.reset(key)]

// told says what is stored of a key, with what is used and when it is free again.
function told(state) {
	const inMs = (at) => `in ${span(at - state.now_ms)}`
	const parts = []
	if (state.banned_until_ms > state.now_ms) parts.push(`banned until ${clock(state.banned_until_ms)}, ${inMs(state.banned_until_ms)}`)
	if (state.held) parts.push(`${state.held} leases held`)
	if (state.waiting) parts.push(`${state.waiting} callers in line`)
	for (const l of state.limits ?? []) {
		const what = l.period_ms > 0 ? `${l.kind} per ${period(l.period_ms)}` : l.kind
		const used = l.used > 0 ? `, ${l.used.toLocaleString('en')} used` : l.used === 0 ? ', nothing used' : ''
		const next = l.next_at_ms > state.now_ms && l.next_at_ms < l.reset_at_ms ? `, some back ${inMs(l.next_at_ms)}` : ''
		const all = l.reset_at_ms >= state.now_ms + 500 ? `, full again ${inMs(l.reset_at_ms)}` : ''
		parts.push(what + used + next + all)
	}
	if (!parts.length && state.kind === 'none') return 'all is left: nothing is stored'
	return parts.join('; ') || 'all is left'
}

function policies(s) {
	const p = s.policies
	set($('policies-why'), !s.redis.address ? '' : p.count === 0 ? `The hash ${p.hash} is empty: the limits in the code count.`
		: p.rows.length === 0 ? 'No policy matches.' : p.more ? `${count(p.more)} more match: filter by name.` : '')
	$('policies').classList.toggle('empty', !p.rows.length)
	list($('policies').tBodies[0], p.rows, (r) => r.field, (r) => el('tr', {},
		el('td', {}, el('bdi', { class: 'key', text: r.text }), r.shadow ? el('span', { class: 'tag', text: 'rehearsed' }) : undefined),
		el('td', { 'data-label': 'Limits' }, el('code', { text: r.limits }), r.error ? el('p', { class: 'trouble', text: `It does not count: ${r.error}` }) : undefined),
		el('td', { 'data-label': 'Denied, by shadows', text: deniedBy(r) }),
		acts('td', offers.policy(r), [r.field, r.value, r.shadow])))
}

function deniedBy(r) {
	if (r.lately) return `${count(r.lately.denied)}, ${count(r.lately.shadowed)} of ${count(r.lately.total)} hits`
	if (r.keys) return `${r.keys} keys, ${count(r.would)} times`
	return r.shadow ? 'see the keys above' : '–'
}

function rules(g) {
	$('rules-s').hidden = !g
	if (!g) return
	const over = `in the last ${span(g.over_ms)}`
	set($('rules-why'), g.count === 0 ? 'No rule was met yet.' : `What this process decided ${over}.` + (g.more ? ` ${count(g.more)} more rules match: filter by name.` : ''))
	$('rules').classList.toggle('empty', !g.rules.length && !g.by_domain.length)
	list($('rules').tBodies[0], [...g.by_domain, ...g.rules], (r) => `${r.domain} ${r.name}`, (r) => el('tr', {},
		el('td', { 'data-label': 'Domain' }, el('bdi', { text: r.domain })), el('td', { 'data-label': 'Rule' }, r.name ? el('bdi', { class: 'key', text: r.name }) : el('b', { text: 'all requests' })),
		el('td', { class: 'n', 'data-label': 'Hits', text: count(r.total) }), el('td', { class: 'n', 'data-label': 'Denied', text: count(r.denied) }),
		el('td', { class: 'n', 'data-label': 'By shadows', text: count(r.shadowed) })))
}

// sweep says how much of the server has been looked at.
function sweep(s, none) {
	const { why, keys, rounds } = s.looked
	if (why || !s.redis.up) return why ?? ''
	if (rounds === 0) return `Looked at ${count(keys)} of ${count(s.redis.keys)} keys so far.`
	return none ? 'None.' : ''
}

function bans(s) {
	const { rows, more: others, at_least: least } = s.bans
	set($('bans-why'), [sweep(s, !rows.length), others ? `${least ? 'At least ' : ''}${others} more.` : ''].join(' ').trim())
	list($('bans'), rows, (r) => idOf(r.key), (r) => el('li', {},
		acts('span', r.key.raw ? [offers.lift(r.key)] : [], r.key),
		el('bdi', { class: 'key', text: r.key.text }), more(`until ${clock(r.state.banned_until_ms)}, in ${span(r.state.banned_until_ms - r.state.now_ms)}`)))
}

function leases(s) {
	const { rows, more: others, at_least: least } = s.leases
	set($('leases-why'), [sweep(s, !rows.length), others ? `${least ? 'At least ' : ''}${others} more keys.` : ''].join(' ').trim())
	list($('leases'), rows, (r) => idOf(r.key), (r) => el('li', {},
		acts('span', r.key.raw ? [offers.reset(r.key)] : [], r.key),
		el('bdi', { class: 'key', text: r.key.text }), more(`${r.state.held} held, ${r.state.waiting} in line`), ...lines(r.leases)))
}

function lines(l) {
	if (!l) return []
	return [
		...l.groups.map((g) => el('span', { class: 'more' }, el('bdi', { text: g.name || 'no group' }),
			`: ${g.waiting} in line` + (g.priority ? `, priority ${g.priority}` : '') + (g.weight > 1 ? `, weight ${g.weight}` : ''))),
		...(l.more_groups > 0 ? [more(`and ${l.more_groups} more groups`)] : []),
		...(l.holders.length ? [el('span', { class: 'more' }, 'held by ',
		  ...l.holders.slice(0, 5).flatMap((h, i) => [i ? ', ' : '', el('bdi', { text: h.id }), ` (${span(h.lease_ms)})`]), l.held > 5 ? ' …' : '')] : []),
	]
}

function state(s) {
	const r = s.redis, g = s.gateway
	const rows = [['Redis', r.up ? `${r.server} at ${r.address}` : r.error, !r.up]]
	if (!r.up && r.down_ms) rows.push(['away for', span(Date.now() - r.down_ms), true])
	if (r.role) rows.push(['role', r.role + (r.masters > 1 ? `, one of ${r.masters}` : '')])
	if (r.door) rows.push(['limits by', r.door, r.door.startsWith('neither')])
	if (r.since_ms) rows.push(['counting since', clock(r.since_ms)])
	if (r.address) rows.push(['keys, clients', `${count(r.keys)}, ${count(r.clients)}`])
	if (r.zones) rows.push(['time zones', r.zones, r.zones.startsWith('servers differ')])
	if (g) {
		rows.push(['breaker', g.breaker_open ? 'open: redis_down decides' : 'closed', g.breaker_open])
		rows.push(['configuration', g.loaded ? `${g.version} of ${clock(g.loaded_ms)}` : 'none is loaded', !g.loaded])
		if (g.error) rows.push(['refused since', g.error, true])
		if (g.domains?.length) rows.push(['domains', g.domains.join(', ')])
	}
	const dl = $('state')
	const shows = JSON.stringify(rows)
	if (dl.shows === shows) return
	dl.shows = shows
	dl.replaceChildren(...rows.flatMap(([name, text, bad]) => [el('dt', { text: name }), el('dd', { text, class: bad ? 'bad' : undefined })]))
}

function log(s) {
	set($('log-why'), s.log.length ? '' : s.redis.up ? 'Nothing was changed here.' : '')
	list($('log'), s.log, (e) => `${e.at_ms} ${e.what}`, (e) => el('li', {}, el('code', { text: e.what }), el('span', { class: 'more' }, `${clock(e.at_ms)} by `, el('bdi', { text: e.by || 'somebody' }))))
}

async function look(event) {
	event.preventDefault()
	const box = $('looked')
	try {
		const k = await ask('key', { key: bytesOf(new FormData(event.target).get('key')) })
		box.replaceChildren(el('p', {}, el('bdi', { class: 'key', text: k.key.text })), el('p', { text: k.nothing ?? told(k.state) }), ...lines(k.leases),
			el('p', { class: 'acts' }, ...(k.state ? onKey(k.key, k.state) : [])))
	} catch (error) {
		box.replaceChildren(el('p', { class: 'trouble', text: error.message }))
	}
}

async function explain(event) {
	event.preventDefault()
	const f = new FormData(event.target)
	try {
		const answer = await ask('explain', { explain: { request: f.get('request'), from: f.get('from'), headers: f.get('headers') } })
		$('explained').replaceChildren(el('pre', { text: answer.text }))
	} catch (error) {
		$('explained').replaceChildren(el('p', { class: 'trouble', text: error.message }))
	}
}

setUp({ again: poll, hash: () => last.policies.hash })
$('look').addEventListener('submit', look)
$('explain').addEventListener('submit', explain)
$('filter').addEventListener('input', poll)
document.addEventListener('visibilitychange', poll)
poll()
