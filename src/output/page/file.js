"use strict";
const form = document.getElementById("filter");
const found = document.getElementById("found");
const owners = Array.from(document.querySelectorAll("details.owner")).map((owner) => {
  const name = owner.querySelector("summary").textContent.toLowerCase();
  const results = Array.from(owner.querySelectorAll("article"));
  return { owner, results: results.map((result) => ({ result, text: name + " " + result.textContent.toLowerCase() })) };
});
const chosen = (name) => form.elements.namedItem(name).value;

// Shows the results that match the filter, and the objects that have such results.
const search = () => {
  const words = chosen("q").toLowerCase().split(/\s+/);
  const [namespace, policy, severity] = ["namespace", "policy", "severity"].map(chosen);
  const is = (wanted, value) => wanted === "" || wanted === value;
  let shown = 0;
  let all = 0;
  for (const { owner, results } of owners) {
    let left = 0;
    for (const { result, text } of results) {
      const wanted = [
        is(namespace, owner.dataset.namespace),
        is(policy, result.dataset.policy),
        is(severity, result.dataset.severity),
        words.every((word) => text.includes(word)),
      ];
      result.hidden = !wanted.every(Boolean);
      left += result.hidden ? 0 : 1;
    }
    owner.hidden = left === 0;
    shown += left;
    all += results.length;
  }
  found.textContent = shown + " of " + all + " results";
};
form.addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
form.addEventListener("input", search);
form.hidden = owners.length === 0;
search();

// Opens all details before printing, since they cannot be opened on paper.
addEventListener("beforeprint", () => {
  document.querySelectorAll("details").forEach((one) => {
    one.open = true;
  });
});
