// Tables with a column of numbers are sorted by a click on a heading, or Enter: numbers by their
// value, all else by its letters, empty cells last; a second click turns the order.
const NUMBER = /^[^\d.]{0,2}?([-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?)/i

function key(row, column) {
  const text = row.cells[column].textContent.trim().replace("−", "-")
  const number = text.match(NUMBER)
  return { text, number: number ? Number(number[1].replaceAll(",", "")) : NaN }
}

function order(a, b) {
  if (!a.text || !b.text) return 0
  const byNumber = a.number - b.number
  return Number.isNaN(byNumber) ? a.text.localeCompare(b.text, "en", { numeric: true }) : byNumber
}

function sort(heading) {
  const body = heading.closest("table").tBodies[0]
  const turned = heading.getAttribute("aria-sort") === "ascending"
  const rows = Array.from(body.rows, row => [key(row, heading.cellIndex), row])
  rows.sort(([a], [b]) => !a.text - !b.text || (turned ? order(b, a) : order(a, b)))
  for (const other of heading.parentElement.cells) other.setAttribute("aria-sort", "none")
  heading.setAttribute("aria-sort", turned ? "descending" : "ascending")
  body.append(...rows.map(([, row]) => row))
}

for (const table of document.querySelectorAll("article table:not([class])")) {
  if (!table.querySelector("th[style*=right]") || table.tBodies[0].rows.length < 4) continue
  for (const heading of table.tHead.rows[0].cells) {
    if (!heading.textContent.trim()) continue
    const button = document.createElement("button")
    button.append(...heading.childNodes)
    button.addEventListener("click", () => sort(heading))
    heading.append(button)
    heading.setAttribute("aria-sort", "none")
  }
}

// Long tables have a filter: a row is shown if it has all words of it.
for (const table of document.querySelectorAll("article table:not([class])")) {
  if (table.tBodies[0].rows.length < 30) continue
  const field = document.createElement("input")
  field.type = "search"
  field.className = "filter"
  field.placeholder = "Filter rows"
  field.setAttribute("aria-label", "Filter the rows of the next table")
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/)
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase()
      row.hidden = !words.every(word => text.includes(word))
    }
  })
  table.before(field)
}

// The dialog of the search has no name in the theme.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search")
