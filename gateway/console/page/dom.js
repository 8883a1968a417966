// Helpers: elements whose text is set as text, and lists that keep the elements they have, so that whoever is on a
// button stays there.

export const $ = (id) => document.getElementById(id)

// el makes an element. Whatever is given as text or child never becomes markup.
export function el(tag, { text, on, ...attributes } = {}, ...children) {
	const e = document.createElement(tag)
	for (const [name, value] of Object.entries(attributes)) if (value !== undefined) e.setAttribute(name, value)
	if (text !== undefined) e.textContent = text
	if (on) e.addEventListener('click', on)
	e.append(...children.filter((c) => c !== undefined && c !== null))
	return e
}

export function set(e, text) {
	if (e.textContent !== text) e.textContent = text
}

// list shows items in a parent. make returns an element for an item; where what it shows is the same as before, the
// element stays.
export function list(parent, items, keyOf, make) {
	const had = new Map([...parent.children].map((e) => [e.dataset.id, e])), times = new Map()
	let before = parent.firstElementChild
	const spot = spotOf(document.activeElement)
	for (const item of items) {
		let id = keyOf(item)
		const same = times.get(id) ?? 0
		times.set(id, same + 1)
		if (same > 0) id += `, number ${same + 1}` // what is shown was cut, and is the same for both
		const shows = JSON.stringify(item)
		let e = had.get(id)
		had.delete(id)
		if (!e || e.shows !== shows) {
			const fresh = make(item)
			fresh.dataset.id = id
			fresh.shows = shows
			if (e && renew(e, fresh)) {
				e.shows = shows
				if (e === before) before = e.nextElementSibling
				else parent.insertBefore(e, before)
				continue
			}
			if (e === before) before = e?.nextElementSibling ?? null
			e?.remove()
			e = fresh
		}
		if (e === before) before = e.nextElementSibling
		else parent.insertBefore(e, before)
	}
	for (const e of had.values()) e.remove()
	if (spot?.parent === parent) goBack(spot)
}

// spotOf is where in a list an element is, for goBack.
export function spotOf(element) {
	const row = element?.closest?.('[data-id]')
	return row ? { element, parent: row.parentElement, id: row.dataset.id, act: element.dataset.act } : undefined
}

// goBack puts the focus where it was: on the same button, on another one of its row, on the next best of the list, or
// on its heading.
export function goBack(spot) {
	if (spot.element.isConnected) return
	const row = [...spot.parent.children].find((e) => e.dataset.id === spot.id)
	const buttons = [...(row?.querySelectorAll('button') ?? [])]
	const heading = spot.parent.closest('section').querySelector('h2')
	heading.tabIndex = -1
	;(buttons.find((b) => b.dataset.act === spot.act) ?? buttons[0] ?? spot.parent.querySelector('button') ?? heading).focus()
}

// renew puts what has changed into an element. Its buttons stay where they do the same: a press may have begun on one
// of them.
function renew(e, fresh) {
	const acts = e.querySelector('.acts'), others = fresh.querySelector('.acts')
	if (acts?.dataset.does !== others?.dataset.does || (acts && acts.parentElement !== e)) return false
	const parts = [...fresh.childNodes]
	for (const old of [...e.childNodes]) if (old !== acts) old.remove()
	if (!acts) e.append(...parts)
	else {
		const at = parts.indexOf(others)
		acts.before(...parts.slice(0, at))
		acts.after(...parts.slice(at + 1))
	}
	return true
}

// count is a number as people read it.
export const count = (n) => (n >= 1000 ? Math.round(n) : Math.round(n * 10) / 10).toLocaleString('en')
export const share = (part, of) => (of > 0 ? `${Math.min(100, Math.round((part / of) * 1000) / 10)}%` : '–')

// span is a length of time, given in ms.
export function span(ms) {
	const s = Math.max(0, Math.round(ms / 1000))
	if (s < 90) return `${s} s`
	if (s < 90 * 60) return `${Math.round(s / 60)} min`
	if (s < 48 * 3600) return `${Math.round(s / 360) / 10} h`
	return `${Math.round(s / 86400)} days`
}

// period is that of a limit.
export function period(ms) {
	const [unit, name] = [[86_400_000, 'd'], [3_600_000, 'h'], [60_000, 'min'], [1000, 's'], [1, 'ms']].find(([unit]) => ms % unit === 0)
	return ms === unit ? name : `${ms / unit} ${name}`
}

// clock is an instant in the zone of the browser, with its day if that is another one.
export function clock(ms) {
	const at = new Date(ms)
	const day = at.toDateString() === new Date().toDateString() ? '' : `${at.toLocaleDateString()} `
	return day + at.toLocaleTimeString([], { hour12: false })
}

export const bytesOf = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)))
