"use strict";
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

// Makes a node equal to another, and leaves the nodes that both contain where they are: a node that is moved or created
// again loses the focus, the selection, and a click that has begun.
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

// Returns a key that is the same for two nodes that show the same thing; that of an entry in a list is its link.
const key = (node) => {
  if (node.nodeType !== Node.ELEMENT_NODE) return node.nodeName;
  const link = node.matches("tr, li") ? node.querySelector("a") : node;
  return [node.nodeName, node.id, link?.getAttribute("href")].join(" ");
};

const lost = () => {
  const live = document.getElementById("live");
  if (live) live.textContent = "Connection lost: this page may be outdated";
};

// The server closes each connection after a while, and the browser opens another.
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
