"use strict";
let wanted = false;
let busy = false;

// Makes this page what the server shows now; what is being read or typed stays.
const update = async () => {
  wanted = true;
  if (busy) return;
  busy = true;
  while (wanted) {
    wanted = false;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      // Whoever was signed in is asked again.
      if (answer.status === 401) return location.reload();
      if (!answer.ok) throw new Error(answer.statusText);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      document.title = page.title;
      const opened = [...document.querySelectorAll("details[open] > summary")].map((one) => one.textContent);
      for (const summary of page.querySelectorAll("details > summary")) {
        if (opened.includes(summary.textContent)) summary.parentElement.open = true;
      }
      const focused = document.activeElement;
      for (const part of ["header", "main"]) become(...[document, page].map((one) => one.querySelector(part)));
      if (focused?.isConnected === false) [...document.links].find((link) => link.href === focused.href)?.focus();
    } catch (error) {
      lost();
    }
  }
  busy = false;
};

// Makes one node what another is, and leaves where it is what is in both: what is moved or made anew loses the focus, what is
// selected, and a click that has begun.
const become = (here, there) => {
  if (here.isEqualNode(there)) return;
  if (here.nodeType !== Node.ELEMENT_NODE) {
    here.nodeValue = there.nodeValue;
    return;
  }
  for (const { name } of [...here.attributes]) if (!there.hasAttribute(name)) here.removeAttribute(name);
  for (const { name, value } of there.attributes) if (here.getAttribute(name) !== value) here.setAttribute(name, value);
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

// What two nodes have in common that show the same; of an entry of a list it is what that leads to.
const key = (node) => {
  if (node.nodeType !== Node.ELEMENT_NODE) return node.nodeName;
  const link = node.matches("tr, li") ? node.querySelector("a") : node;
  return [node.nodeName, node.id, link?.getAttribute("href")].join(" ");
};

const lost = () => {
  const live = document.getElementById("live");
  if (live) live.textContent = "Connection lost: what is here may be old";
};

// The server ends each connection after a while, and the browser opens another.
let losing;
const events = new EventSource("events");
events.addEventListener("open", () => {
  clearTimeout(losing);
  losing = undefined;
});
events.addEventListener("changed", update);
events.addEventListener("error", () => {
  losing ??= setTimeout(lost, 5000);
});
