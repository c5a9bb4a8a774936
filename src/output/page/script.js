"use strict";
const root = document.documentElement;
root.classList.add("scripted");
let wanted = false;
let busy = false;

// Updates this page to the current one of the server; opened details, the focus and typed text stay.
const update = async () => {
  wanted = true;
  if (busy) return;
  busy = true;
  while (wanted) {
    wanted = false;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      // The session has ended: reloading shows the sign-in form.
      if (answer.status === 401) return location.reload();
      if (!answer.ok) throw new Error(answer.statusText);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      document.title = page.title;
      icon().href = icon(page).href;
      const focused = document.activeElement;
      for (const part of ["header", "main"]) become(...[document, page].map((one) => one.querySelector(part)));
      if (focused?.isConnected === false) [...document.links].find((link) => link.href === focused.href)?.focus();
      alive();
    } catch (error) {
      lost();
    }
  }
  busy = false;
};

// Makes a node equal to another, and leaves the nodes that both contain where they are: a node that is moved or created
// again loses the focus, the selection, and a click that has begun.
const become = (here, there) => {
  if (here.isEqualNode(there)) return;
  if (here.nodeType !== Node.ELEMENT_NODE) {
    here.nodeValue = there.nodeValue;
    return;
  }
  // The reader has opened and closed details.
  const own = (name) => name === "open" && here.nodeName === "DETAILS";
  for (const { name } of [...here.attributes]) if (!there.hasAttribute(name) && !own(name)) here.removeAttribute(name);
  for (const { name, value } of there.attributes) {
    if (here.getAttribute(name) !== value && !own(name)) here.setAttribute(name, value);
  }
  const old = [...here.childNodes];
  for (const node of [...there.childNodes]) {
    const place = old.findIndex((one) => key(one) === key(node));
    if (place < 0) {
      here.insertBefore(node, old[0] ?? null);
      continue;
    }
    for (const one of old.splice(0, place)) one.remove();
    become(old.shift(), node);
  }
  for (const one of old) one.remove();
};

// Returns a key that is the same for two nodes that show the same thing; that of an entry in a list is
// the link to its object, or else its first link.
const key = (node) => {
  if (node.nodeType !== Node.ELEMENT_NODE) return node.nodeName;
  const link = node.matches("tr, li") ? (node.querySelector("a[href*='object=']") ?? node.querySelector("a")) : node;
  return [node.nodeName, node.id, link?.getAttribute("href")].join(" ");
};

// Filters apply at once. What is typed is kept: the page does not load again.
let typing;
const apply = () => {
  const filled = [...new FormData(document.getElementById("filter"))].filter(([, value]) => value !== "");
  history.replaceState(null, "", "?" + new URLSearchParams(filled));
  update();
};
addEventListener("input", ({ target }) => {
  if (!target.closest("#filter")) return;
  clearTimeout(typing);
  typing = setTimeout(apply, target.matches("select") ? 0 : 200);
});
addEventListener("submit", (event) => {
  if (event.target.id !== "filter") return;
  event.preventDefault();
  apply();
});
addEventListener("popstate", update);
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.matches("input, select, textarea")) return;
  event.preventDefault();
  document.querySelector("#filter [name=q]")?.focus();
});

// Times relative to now, in the units of the server.
const units = [[172800, 86400, "d"], [3600, 3600, "h"], [60, 60, "min"], [0, 1, "s"]];
const relative = (seconds) => {
  const [, unit, word] = units.find(([least]) => Math.abs(seconds) >= least);
  const text = Math.floor(Math.abs(seconds) / unit) + " " + word;
  return seconds < 0 ? "in " + text : text + " ago";
};
const refresh = () => {
  for (const time of document.querySelectorAll("time")) {
    time.textContent = relative(Math.round((Date.now() - Date.parse(time.dateTime)) / 1000));
  }
};

// The server says every few seconds that its audit runs. A page that does not hear from it is marked.
let heard = Date.now();
const icon = (of = document) => of.querySelector("link[rel=icon]");
const alive = () => {
  heard = Date.now();
  if (root.classList.contains("lost")) {
    root.classList.remove("lost");
    update();
  }
};
const lost = () => {
  const live = document.getElementById("live");
  if (!live) return;
  const at = new Date(heard).toLocaleTimeString([], { hour12: false });
  live.textContent = "not live since " + at + ": this page may be outdated";
  if (root.classList.contains("lost")) return;
  root.classList.add("lost");
  document.title = "(not live) " + document.title;
  icon().href = icon().href.replace(/%23[0-9a-f]{6}/, "%238c959f");
};
setInterval(() => {
  if (Date.now() - heard > 12000) lost();
  else refresh();
}, 1000);

const events = new EventSource("events");
events.addEventListener("changed", update);
events.addEventListener("alive", ({ data }) => {
  const time = document.querySelector("#live time");
  if (time) time.dateTime = data;
  alive();
});
