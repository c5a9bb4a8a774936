
"use strict";
const rows = Array.from(document.querySelectorAll("#results tbody tr"));
const form = document.getElementById("filter");
if (form) {
  const input = document.getElementById("words");
  const found = document.getElementById("found");
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const search = () => {
    const words = input.value.toLowerCase().split(/\s+/);
    let shown = 0;
    rows.forEach((row, index) => {
      row.hidden = !words.every((word) => texts[index].includes(word));
      shown += row.hidden ? 0 : 1;
    });
    found.textContent = shown + " of " + rows.length;
  };
  form.addEventListener("submit", (event) => event.preventDefault());
  input.addEventListener("input", search);
  form.hidden = false;
  search();
}
