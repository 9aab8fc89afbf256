// What a page carries, and how it is taken out: JSON, compressed by fill_page().

/** The text that the element with this id carries. */
async function carried(id) {
  const text = document.getElementById(id).textContent.trim();
  const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** What to tell who opened the page, of an error in carried() or in the JSON behind it. */
const why_unreadable = error => typeof DecompressionStream === "undefined" ? "This browser is too old for this page: it cannot decompress (Chromium 80, Firefox 113 and Safari 16.4 can)." : error.message;

const list = value => Array.isArray(value) ? value.filter(known) : [];
const object = value => value && typeof value === "object" && !Array.isArray(value) ? value : {};
