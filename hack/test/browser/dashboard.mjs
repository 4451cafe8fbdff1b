// Draws the panels of the Grafana dashboard with the data that a Prometheus answered, in a browser, by
// ECharts. It knows the kinds of panels and the units that charts/mediastack/files/dashboard.json uses.
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import puppeteer from 'puppeteer-core'
import { pictureFonts } from './fonts.mjs'

const options = JSON.parse(process.argv[2])
const panels = JSON.parse(await readFile(options.data, 'utf8'))
for (const { Type, Title } of panels) {
  if (!['row', 'stat', 'timeseries'].includes(Type)) throw new Error(`the panel ${Title} has the type ${Type}, which this script does not know`)
}

const browser = await puppeteer.launch({
  executablePath: options.browser, headless: true, env: { ...process.env, ...await pictureFonts(options.scratch) },
  // Tests run as root in containers; the page is the test's own.
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--no-proxy-server'],
})
try {
  const page = await browser.newPage()
  const problems = []
  page.on('pageerror', (error) => problems.push(String(error)))
  await page.setViewport({ width: 1680, height: 1000 })
  await page.setContent(`<!doctype html><html lang="en"><meta charset="utf-8"><style>
    body { margin: 0; padding: 12px; background: #111217; color: #ccccdc; font: 13px Inter, sans-serif; }
    main { display: grid; grid-template-columns: repeat(24, minmax(0, 1fr)); grid-auto-rows: 30px; gap: 8px; }
    section { background: #181b1f; border: 1px solid #2c2f36; border-radius: 3px; padding: 6px 8px; display: flex; flex-direction: column; min-height: 0; }
    h2 { margin: 0; font-size: 13px; font-weight: 600; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
    h1 { margin: 0; font-size: 15px; font-weight: 600; align-self: center; }
    .chart, .value { flex: 1; min-height: 0; }
    .value { display: grid; place-items: center; font-size: 34px; font-weight: 600; }
  </style><main></main>`)
  await page.addScriptTag({ content: await readFile(createRequire(import.meta.url).resolve('echarts/dist/echarts.min.js'), 'utf8') })
  const charts = await page.evaluate(show, panels)
  if (problems.length > 0 || charts === 0) throw new Error(`${charts} charts were drawn: ${problems}`)
  await (await page.$('body')).screenshot({ path: options.picture })
} finally {
  await browser.close()
}

// show runs in the page.
async function show(panels) {
  const palette = ['#73bf69', '#f2cc0c', '#5794f2', '#ff780a', '#f2495c', '#b877d9', '#37872d', '#fade2a', '#8ab8ff', '#ff9830', '#e02f44', '#a352cc']
  const named = { green: '#73bf69', orange: '#ff9830', red: '#f2495c' }
  const scaled = (value, base, units) => {
    let n = 0
    while (Math.abs(value) >= base && n < units.length - 1) { value /= base; n++ }
    return `${Number(value.toPrecision(3))} ${units[n]}`.trim()
  }
  const units = {
    short: (v) => scaled(v, 1000, ['', 'K', 'M', 'G']),
    reqps: (v) => `${scaled(v, 1000, ['', 'K', 'M'])} req/s`,
    ops: (v) => `${scaled(v, 1000, ['', 'K', 'M'])} ops/s`,
    bytes: (v) => scaled(v, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']),
    Bps: (v) => `${scaled(v, 1000, ['B', 'kB', 'MB', 'GB'])}/s`,
    percentunit: (v) => `${Number((100 * v).toPrecision(3))} %`,
    s: (v) => v === 0 ? '0 s' : v < 1e-3 ? `${Number((1e6 * v).toPrecision(3))} µs` : v < 1 ? `${Number((1e3 * v).toPrecision(3))} ms` : v < 120 ? `${Number(v.toPrecision(3))} s` : v < 7200 ? `${Number((v / 60).toPrecision(3))} min` : `${Number((v / 3600).toPrecision(3))} h`,
  }
  const finished = []
  for (const { Type, Title, GridPos: at, FieldConfig, lines } of panels) {
    const section = document.querySelector('main').appendChild(document.createElement('section'))
    section.style.cssText = `grid-column: ${at.X + 1} / span ${at.W}; grid-row: ${at.Y + 1} / span ${at.H};`
    section.appendChild(document.createElement(Type === 'row' ? 'h1' : 'h2')).textContent = Title
    if (Type === 'row') {
      Object.assign(section.style, { background: 'none', border: 'none', flexDirection: 'row', justifyContent: 'flex-start', paddingLeft: 0 })
      continue
    }
    const { unit, mappings = [], thresholds, custom = {} } = FieldConfig.defaults
    const format = units[unit]
    if (!format) throw new Error(`the panel ${Title} has the unit ${unit}`)
    const place = section.appendChild(document.createElement('div'))
    if (Type === 'stat') {
      const value = lines[0]?.points.map(([, v]) => v).findLast((v) => v !== null) ?? null
      const text = mappings.map(({ options }) => options[String(value)]?.text).find(Boolean)
      place.className = 'value'
      place.textContent = value === null ? 'No data' : text ?? format(value)
      place.style.color = named[thresholds.steps.findLast((step) => step.value === null || value >= step.value).color]
      continue
    }
    place.className = 'chart'
    const chart = echarts.init(place, null, { renderer: 'canvas' })
    finished.push(new Promise((resolve) => chart.on('finished', resolve)))
    const stacked = custom.stacking?.mode === 'normal'
    chart.setOption({
      animation: false, useUTC: true, color: palette,
      textStyle: { fontFamily: 'Inter, sans-serif', color: '#ccccdc' },
      grid: { left: 8, right: 14, top: 12, bottom: 26, containLabel: true },
      legend: { type: 'scroll', left: 0, bottom: 0, itemWidth: 14, itemHeight: 3, icon: 'rect', itemGap: 12, textStyle: { color: '#ccccdc', fontSize: 11 }, pageIconSize: 9, pageTextStyle: { color: '#8e8e9b', fontSize: 10 } },
      xAxis: { type: 'time', axisLine: { lineStyle: { color: '#2c2f36' } }, axisTick: { show: false }, axisLabel: { color: '#8e8e9b', fontSize: 11, hideOverlap: true, formatter: '{HH}:{mm}' }, splitLine: { show: true, lineStyle: { color: '#24272d' } }, minInterval: 60000 },
      yAxis: { type: 'value', min: 0, max: custom.axisSoftMax ? (range) => Math.max(range.max, custom.axisSoftMax) : undefined, splitNumber: 4, axisLabel: { color: '#8e8e9b', fontSize: 11, formatter: format }, splitLine: { lineStyle: { color: '#24272d' } } },
      series: lines.map(({ name, points }) => ({
        name, type: 'line', data: points, showSymbol: false, lineStyle: { width: 1.4 },
        areaStyle: { opacity: stacked ? 0.3 : 0.08 }, stack: stacked ? 'all' : undefined,
      })),
    })
  }
  await Promise.all([document.fonts.ready, ...finished])
  return finished.length
}
