// Decompresses the JSON data that fill_page() inserts into the page.

/** Returns the text in the element with this id. */
async function carried(id) {
  const text = document.getElementById(id).textContent.trim();
  const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** Message for an error of carried() or of parsing its result. */
const why_unreadable = error => typeof DecompressionStream === "undefined" ? "This browser is too old for this page: it does not support decompression (required: Chromium 80, Firefox 113 or Safari 16.4)." : error.message;

const list = value => Array.isArray(value) ? value.filter(known) : [];
const object = value => value && typeof value === "object" && !Array.isArray(value) ? value : {};
