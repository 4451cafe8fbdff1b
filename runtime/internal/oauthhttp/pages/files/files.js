// Makes the library and the page of a file quicker to use: keys and swipes lead to the next file, a link can be copied, and what was typed survives
// a login. Without this script the same is done by links and forms.
'use strict'
{
  const follow = (rel) => document.querySelector(`.stage a[rel="${rel}"]`)?.click()
  const typing = (target) => target instanceof Element && target.closest('input, textarea, select, video, audio, [contenteditable]') !== null

  document.addEventListener('keydown', (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || typing(event.target)) return
    if (event.key === 'ArrowLeft') follow('prev')
    if (event.key === 'ArrowRight') follow('next')
    if (event.key === 'Escape') document.querySelector('a.back')?.click()
  })

  // A swipe of one finger, more sideways than up or down.
  const stage = document.querySelector('.stage')
  let began = null
  stage?.addEventListener('touchstart', (event) => {
    began = event.touches.length === 1 && !typing(event.target) ? event.touches[0] : null
  }, { passive: true })
  stage?.addEventListener('touchend', (event) => {
    if (began === null || event.changedTouches.length !== 1) return
    const { clientX, clientY } = event.changedTouches[0]
    const [x, y] = [clientX - began.clientX, clientY - began.clientY]
    began = null
    if (Math.abs(x) > 48 && Math.abs(x) > 2 * Math.abs(y)) follow(x > 0 ? 'prev' : 'next')
  }, { passive: true })

  // The bar of selected files says how many they are. Shift selects all up to the one before, Enter leads to the bar, and Escape clears the selection.
  const picks = () => [...document.querySelectorAll('.pick')]
  const keys = !matchMedia('(pointer: coarse)').matches
  const selected = () => picks().filter((one) => one.checked).length
  const say = () => {
    const count = document.querySelector('[data-count]')
    if (count) count.textContent = (selected() === 1 ? '1 file selected' : `${selected()} files selected`) + (keys ? '. Shift+click: a range, Enter: actions, Esc: clear' : '')
    const all = document.querySelector('[data-select]')
    if (all) all.textContent = selected() === picks().length ? 'Select none' : `Select all of this page (${all.dataset.select})`
  }
  const check = (which, checked) => {
    for (const one of which) one.checked = checked
    say()
  }
  let before = null
  document.addEventListener('click', (event) => {
    const pick = event.target.closest('.pick')
    if (pick) {
      const all = picks()
      if (event.shiftKey && all.includes(before)) {
        const [from, to] = [all.indexOf(before), all.indexOf(pick)].sort((a, b) => a - b)
        for (const one of all.slice(from, to + 1)) one.checked = pick.checked
      }
      before = pick
      say()
    }
    if (event.target.closest('[data-select]') && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault()
      check(picks(), selected() < picks().length)
    }
  })
  document.getElementById('results')?.addEventListener('keydown', (event) => {
    const pick = event.target.closest('.pick')
    if (event.key === 'Escape' && selected() > 0 && (pick || event.target.closest('#selection'))) {
      event.stopPropagation() // which would lead back to the list
      check(picks(), false)
      before?.focus()
    }
    if (event.key !== 'Enter' || !pick) return
    event.preventDefault() // which would send the form with its first button
    if (selected() > 0) document.querySelector('#selection summary, #selection button').focus()
  })
  document.addEventListener('renewed', say)
  if (selected() > 0) say() // all were selected by the link, or the browser has kept them

  // Back from the page of a file, the list is where the file is: by the address, which gives the focus in some browsers only.
  if (location.hash.startsWith('#item-')) document.getElementById(location.hash.slice(1))?.focus({ preventScroll: true })

  // The days of the filter are those of the reader, as the times on the page are: the form says when they begin and end.
  document.getElementById('filter')?.addEventListener('formdata', ({ formData }) => {
    for (const [name, days] of [['from', 0], ['to', 1]]) {
      const [year, month, day] = (formData.get(name) ?? '').split('-').map(Number)
      if (day) formData.set(`${name}At`, new Date(year, month - 1, day + days).toISOString())
    }
  })

  for (const button of document.querySelectorAll('button[data-copy]')) {
    button.hidden = false
    button.addEventListener('click', async () => {
      const field = document.getElementById(button.dataset.copy)
      field.select()
      try {
        await navigator.clipboard.writeText(field.value)
        button.textContent = 'Copied'
      } catch { // the browser does not permit it, as for a service without TLS: the link is selected
        button.textContent = 'Press Ctrl+C to copy'
      }
    })
  }

  // The page says two minutes before that its session ends. Any request extends a session, up to its longest time.
  const session = document.querySelector('.session')
  if (session) {
    const warnAfter = (seconds) => setTimeout(() => { session.hidden = false }, Math.max(0, seconds - 120) * 1000)
    const stay = session.querySelector('button')
    stay.hidden = false
    stay.addEventListener('click', async () => {
      const response = await fetch(location.href).catch(() => null)
      if (response?.ok && !response.redirected) {
        session.hidden = true
        warnAfter(Number(session.dataset.ends))
      } else {
        session.querySelector('span').textContent = 'Your login has ended. What you typed is kept in this tab: log in again.'
      }
    })
    warnAfter(Number(session.dataset.ends))
  }

  // What was typed is kept in this tab until it is saved, so that the end of a session loses nothing.
  for (const form of document.querySelectorAll('form[data-draft]')) {
    const key = `draft of ${form.dataset.draft}`
    const fields = [...form.elements].filter((field) => field.name && field.type !== 'hidden' && field.type !== 'file')
    const now = () => JSON.stringify(fields.map((field) => [field.name, field.value]))
    const saved = new URLSearchParams(location.search).get('done') === 'changed'
    const unchanged = now()
    if (saved) sessionStorage.removeItem(key)
    const kept = sessionStorage.getItem(key)
    if (kept && !document.querySelector('[role="alert"]')) {
      for (const [name, value] of JSON.parse(kept)) {
        const field = fields.find((one) => one.name === name)
        if (field) field.value = value
      }
      if (now() !== unchanged) form.closest('details').open = true
    }
    form.addEventListener('input', () => sessionStorage.setItem(key, now()))
  }
}
