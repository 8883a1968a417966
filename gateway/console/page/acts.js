// What an operator with the token does. Each act is shown as it will happen, and happens when it is confirmed.

import { $, el, goBack, set, spotOf } from './dom.js'

const store = window.sessionStorage
let again = () => {}, hash = () => ''

export class Refused extends Error {
	constructor(code, message) {
		super(message)
		this.code = code
	}
}

// ask sends a question. What it is about stands in the body, never in the URL.
export async function ask(what, body) {
	const headers = { 'Content-Type': 'application/json', 'X-Throttle-Console': '1' }
	const token = store.getItem('token')
	if (token) headers.Authorization = `Bearer ${token}`
	const response = await fetch(`api/${what}`, { method: 'POST', headers, body: JSON.stringify(body), signal: AbortSignal.timeout(10_000) })
	const reply = await response.json().catch(() => ({}))
	if (!response.ok) throw new Refused(response.status, reply.error ?? `the program answers ${response.status}`)
	return reply
}

export const signedIn = () => store.getItem('token') !== null

// button has what it acts on in its name, for those who hear one button after the other.
const button = (text, act, to, on) => el('button', { type: 'button', text, on, 'data-act': act, 'aria-label': `${text} ${to}` })

// offers are buttons for the acts on a key or a policy.
export const offers = {
	ban: (key) => button('Ban', 'ban', key.text, () => confirm({ title: 'Ban this key?', text: 'Every call on it is denied until the ban ends.', key, act: { act: 'ban' }, time: true, yes: 'Ban' })),
	lift: (key) => button('Lift', 'lift', key.text, () => confirm({ title: 'Lift the ban?', text: 'The limits of the key decide again.', key, act: { act: 'lift' }, yes: 'Lift the ban' })),
	reset: (key) => button('Reset', 'reset', key.text, () => confirm({ title: 'Reset this key?', text: 'The key is deleted: its limits are full again, and bans and leases on it end.', key, act: { act: 'reset' }, yes: 'Reset' })),
	policy: (row) => row.fixed ? [] : [
		row.shadow && !row.error ? button('Enforce', 'enforce', row.text, () => edit(row, 'enforced')) : undefined,
		button('Change', 'change', row.text, () => edit(row)),
		button('Remove', 'remove', row.text, () => write(row.field, '', row.value)),
	].filter(Boolean),
}

// confirm asks, and then acts.
function confirm({ title, text, key, what, act, time, yes }) {
	const dialog = $('confirm'), length = $('confirm-for'), spot = spotOf(document.activeElement)
	set($('confirm-h'), title)
	set($('confirm-text'), text)
	set($('confirm-what'), what ?? key.text)
	set($('confirm-error'), '')
	set($('confirm-do'), yes)
	length.hidden = !time
	if (time) length.querySelector('input').value = '15m'
	$('by').value = store.getItem('by') ?? ''
	dialog.onsubmit = async (event) => {
		event.preventDefault()
		const by = $('by').value.trim()
		store.setItem('by', by)
		$('confirm-do').disabled = true
		try {
			const done = await ask('act', { ...act, by, key: key?.raw, for: time ? length.querySelector('input').value.trim() : undefined })
			dialog.close()
			$('editor').close()
			if (spot) goBack(spot) // what was pressed may have gone while the dialog was open
			say(done.text)
			again()
		} catch (error) {
			set($('confirm-error'), error.message)
		}
		$('confirm-do').disabled = false
	}
	dialog.showModal()
}

function say(text) {
	$('said').hidden = false
	set($('said'), text)
}

// write confirms the change of a policy; an empty value removes it.
function write(field, value, was) {
	const what = value === '' ? `HDEL ${hash()} ${field}` : `HSET ${hash()} ${field} "${value}"`
	const before = was ? ` It was: ${was}` : ' It was not set: until now the limits in the code count.'
	confirm({
		title: value === '' ? 'Remove this policy?' : 'Write this policy?', what, yes: value === '' ? 'Remove' : 'Write', act: { act: 'policy', field, value, was },
		text: (value === '' ? 'The limits in the code count again, or those of a shorter name.' : 'All programs decide by it within a second.') + before,
	})
}

// edit shows the editor for a policy, or for a new one.
function edit(row, how) {
	const now = row?.value ?? ''
	set($('editor-h'), row ? 'Change a policy' : 'New policy')
	$('field').value = row?.field ?? ''
	$('field').readOnly = !!row
	$('value').value = now
	$('now').value = now
	$('now').readOnly = !!row
	set($('now-why'), row ? '' : 'Without a value so far, the limits in the code count. Write them here, so that they deny during the rehearsal; left empty, nobody is denied then.')
	$('rehearse').onclick = () => checked && write($('field').value, checked.rehearsal, now)
	$('enforce').onclick = () => checked && write($('field').value, $('value').value.trim(), now)
	set($('editor-error'), '')
	$('editor').showModal()
	check().then(() => {
		if (how !== 'enforced' || !checked?.enforced) return
		$('value').value = checked.enforced
		check()
	})
}

let checked, checks = 0

// check has the value read as programs will read it.
async function check() {
	const mine = ++checks
	checked = undefined
	let reply, problem = ''
	if ($('value').value.trim() !== '' && $('field').value !== '') {
		try {
			reply = await ask('check', { field: $('field').value, value: $('value').value.trim(), was: $('now').value.trim() })
			problem = reply.error ?? (reply.problem ? `It cannot be rehearsed: ${reply.problem}` : '')
			if (reply.error) reply = undefined
		} catch (error) {
			problem = error.message
		}
	}
	if (mine !== checks) return
	checked = reply
	set($('editor-error'), problem)
	set($('rehearsal'), reply?.rehearsal ?? '')
	$('rehearse').disabled = !reply?.rehearsal
	$('enforce').disabled = !reply
}

function sign() {
	if (signedIn()) {
		store.removeItem('token')
		say('You are signed out.')
		again()
		return
	}
	$('token').value = ''
	set($('signing-error'), '')
	$('signing').showModal()
}

async function signing(event) {
	event.preventDefault()
	store.setItem('token', $('token').value)
	try {
		const state = await ask('state', {})
		if (!state.may_act) throw new Refused(401, 'the token is wrong')
		$('signing').close()
		say('You are signed in.')
	} catch (error) {
		store.removeItem('token')
		set($('signing-error'), error.message)
	}
	again()
}

export function setUp(o) {
	again = o.again
	hash = o.hash
	$('sign').addEventListener('click', sign)
	$('signing').addEventListener('submit', signing)
	$('new-policy').addEventListener('click', () => edit())
	for (const id of ['field', 'value', 'now']) $(id).addEventListener('input', check)
	for (const b of document.querySelectorAll('[data-close]')) b.addEventListener('click', () => b.closest('dialog').close())
}
