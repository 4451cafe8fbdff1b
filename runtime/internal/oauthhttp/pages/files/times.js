// Shows times in the time zone and the language of the user. Without this script they are in UTC, and say so.
'use strict'
{
  const style = { year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' }
  const show = (part) => {
    for (const element of part.querySelectorAll('time[datetime]')) {
      const at = new Date(element.dateTime)
      if (Number.isNaN(at.getTime())) continue
      element.title = element.textContent
      element.textContent = new Intl.DateTimeFormat(document.documentElement.lang, 'seconds' in element.dataset ? { ...style, second: '2-digit' } : style).format(at)
    }
  }
  show(document)
  document.addEventListener('renewed', (event) => show(event.target)) // a part of the page that another script has loaded again
}
