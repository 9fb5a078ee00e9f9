"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const map = at("map");
  const tip = at("tip");
  const MOST_ROWS = 1000;
  const MOST_BELOW = 12;
  const LEAST_SIDE = 3;
  const HEAD = 19;

  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  const size = (bytes) => {
    if (bytes < 1024) return `${bytes} B`;
    const units = ["KiB", "MiB", "GiB", "TiB"];
    let [value, unit] = [bytes / 1024, 0];
    while (Math.round(value * 10) >= 10240 && unit + 1 < units.length) [value, unit] = [value / 1024, unit + 1];
    return `${value.toFixed(1)} ${units[unit]}`;
  };
  const number = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, ",");
  const percent = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(1)}%` : "0.0%");

  // What colours a field: what its values are.
  const kindOf = (item) => {
    if (item.f || item.x) return "message";
    const type = item.g || item.t || "";
    if (type === "bytes") return "bytes";
    if (type === "string" || type === "text") return "text";
    if (type === "message" || type.includes(".") || type.startsWith("map<")) return "message";
    return "number";
  };

  // The tree: fields with their members, sums of what isn't told one by one, and a path for each.
  const all = [];
  const inside = data.inside || {};
  const isInside = (path) => Object.hasOwn(inside, path);
  const grow = (item, parent) => {
    const path = !parent ? item.n : parent.path ? `${parent.path}.${item.n}` : item.n;
    const node = {
      label: item.n, path, parent, size: item.s, own: item.o, count: item.c, chunk: item.k || "",
      type: item.t || "", guess: item.g || "", kind: kindOf(item), fields: [], members: [],
    };
    if (!parent) node.label = item.n || data.message || "message";
    all.push(node);
    return fill(node, item);
  };
  // Gives a node, or a member, its fields and members. What is in a member is listed in a search as part of its field.
  const fill = (node, item) => {
    node.fields = (item.f || []).map((field) => grow(field, node));
    if (item.x) node.fields.push(rest(node, `${number(item.x[0])} other field${item.x[0] === 1 ? "" : "s"}`, item.x[1], item.x[0]));
    for (const [short, name, detail, bytes, chunk, full] of item.m || []) {
      const member = { label: short, name: name || "", detail: detail || "", path: full, parent: node, size: bytes, chunk: chunk || "", kind: "member", member: true, enters: isInside(full) };
      node.members.push(member);
      all.push(member);
    }
    if (item.r) node.members.push(rest(node, `${number(item.r[0])} other${item.r[0] === 1 ? "" : "s"}`, item.r[1], item.r[0]));
    return node;
  };
  const rest = (parent, label, bytes, count) => ({ label: `[${label}]`, path: parent.path, parent, size: bytes, count, kind: "rest", rest: true, chunk: "" });
  const root = grow(data.tree, null);
  const byPath = new Map();
  for (const node of all) if (!node.member || (node.enters && !byPath.has(node.path))) byPath.set(node.path, node);
  const told = all.length;

  // A member that is gone into gets its fields when that is first asked for.
  const enter = (node) => {
    if (!node.enters || node.fields) return node;
    node.own = inside[node.path].o;
    node.members = [];
    fill(node, inside[node.path]);
    const found = all.splice(told);
    for (const one of found) if (!byPath.has(one.path)) byPath.set(one.path, one);
    return node;
  };
  // The node at a path, which may be in a member.
  const nodeAt = (path) => {
    if (byPath.has(path)) return byPath.get(path);
    const within = (member) => member !== path && path.startsWith(`${member}.`);
    for (const member of Object.keys(inside).filter(within).sort((a, b) => a.length - b.length)) {
      if (byPath.has(member)) enter(byPath.get(member));
    }
    return byPath.get(path);
  };

  let view = root;
  // What a browser remembers of a page that was loaded before counts, too.
  let mode = document.querySelector("#mode input:checked").value;
  let query = "";
  let order = { by: "size", down: true };
  let cells = [];

  const title = (node) => (node.name ? `${node.label} ${node.name}` : node.label);
  const canZoom = (node) => {
    if (node.rest || (node.member && !node.enters)) return false;
    const { fields, members } = enter(node);
    return fields.length > 0 || members.length > 0;
  };

  // Whether members say more than fields: they have names, and either most of the bytes are in those that are told one by
  // one, or what is below them has no names, or hardly any of the bytes.
  const named = (node) => node.members.some((member) => member.name);
  const hasNamed = (node, least) => node.fields.some((field) => !field.rest && field.size >= least && ((field.members.length > 1 && named(field)) || hasNamed(field, least)));
  const byMember = (node) => {
    const listed = () => node.members.reduce((sum, member) => sum + (member.rest ? 0 : member.size), 0);
    node.byMember ??= node.members.length > 1 && (!node.fields.length || (named(node) && (listed() >= node.size / 2 || !hasNamed(node, node.size / 2))));
    return node.byMember;
  };

  // What a field is cut into.
  const parts = (node) => {
    if (node.rest || (node.member && !node.enters)) return [];
    enter(node);
    const members = mode === "members" && byMember(node);
    const found = members ? [...node.members] : [...node.fields];
    if (!members && node.own > 0 && node.fields.length > 0) {
      found.push({ label: "tags and lengths", path: node.path, parent: node, size: node.own, kind: "rest", rest: true, chunk: "" });
    }
    return found.filter((part) => part.size > 0).sort((a, b) => b.size - a.size);
  };

  // Squarified: rows of parts, each as long as it doesn't make the parts in it longer.
  const squarify = (sizes, x, y, width, height) => {
    const boxes = [];
    let left = sizes.reduce((sum, part) => sum + part, 0);
    let from = 0;
    while (from < sizes.length && left > 0 && width > 0 && height > 0) {
      const side = Math.min(width, height);
      const scale = (width * height) / left;
      let [sum, worst, to] = [0, Infinity, from];
      while (to < sizes.length) {
        const next = sum + sizes[to];
        const thick = (next * scale) / side;
        const ratio = (part) => Math.max((part * scale) / (thick * thick), (thick * thick) / (part * scale));
        const now = Math.max(ratio(sizes[from]), ratio(sizes[to]));
        if (now > worst) break;
        [sum, worst, to] = [next, now, to + 1];
      }
      const thick = Math.min((sum * scale) / side, Math.max(width, height));
      let along = 0;
      for (; from < to; from += 1) {
        const length = (sizes[from] / sum) * side;
        boxes.push(width >= height ? [x, y + along, thick, length] : [x + along, y, length, thick]);
        along += length;
      }
      if (width >= height) [x, width] = [x + thick, width - thick];
      else [y, height] = [y + thick, height - thick];
      left -= sum;
    }
    return boxes;
  };

  // Every cell that is drawn, with its place in pixels and the cell that it is in.
  const layout = (node, box, depth, above, out) => {
    const found = parts(node);
    const boxes = squarify(found.map((part) => part.size), ...box);
    boxes.forEach(([x, y, width, height], index) => {
      if (width < LEAST_SIDE || height < LEAST_SIDE) return;
      const part = found[index];
      const cell = { node: part, x, y, width, height, depth, above, below: [], frame: false };
      out.push(cell);
      if (above) above.below.push(cell);
      const inner = [x + 2, y + HEAD, width - 4, height - HEAD - 2];
      if (inner[2] > 24 && inner[3] > 16 && parts(part).length > 0) {
        cell.frame = true;
        layout(part, inner, depth + 1, cell, out);
      }
    });
    return out;
  };

  const speak = (node) => `${title(node)}, ${size(node.size)}, ${percent(node.size, root.size)} of all`;

  const draw = () => {
    const { clientWidth: width, clientHeight: height } = map;
    if (!width || !height) return;
    cells = layout(view, [0, 0, width, height], 0, null, []);
    const percentOf = (part, whole) => `${((100 * part) / whole).toFixed(4)}%`;
    const elements = cells.map((cell, index) => {
      const { node } = cell;
      const element = make("button", { type: "button", tabIndex: index === 0 ? 0 : -1 });
      element.className = `cell ${node.kind}${cell.frame ? " frame" : ""}${cell.depth % 2 ? " odd" : ""}${canZoom(node) ? " zooms" : ""}`;
      element.setAttribute("aria-label", speak(node));
      element.dataset.path = node.path;
      element.dataset.size = node.size;
      element.dataset.depth = cell.depth;
      Object.assign(element.style, {
        left: percentOf(cell.x, width), top: percentOf(cell.y, height),
        width: percentOf(cell.width, width), height: percentOf(cell.height, height),
      });
      if (cell.width > 34 && cell.height > 15) {
        const text = node.name ? `${node.name}${node.detail ? ` · ${node.detail}` : ""}` : node.detail || node.label;
        element.append(make("span", { className: "what", textContent: text }));
        const room = cell.frame ? cell.width > 150 : cell.height > 34 && cell.width > 56;
        if (room) element.append(make("span", { className: "much", textContent: size(node.size) }));
        else if (cell.frame) element.firstChild.style.right = "3px";
      }
      cell.element = element;
      return element;
    });
    map.replaceChildren(...elements);
    highlight();
  };

  const crumbs = () => {
    const way = [];
    for (let node = view; node; node = node.parent) way.unshift(node);
    at("crumbs").replaceChildren(...way.flatMap((node, index) => {
      const button = make("button", { type: "button", textContent: node.name || node.label, onclick: () => zoom(node) });
      if (node === view) button.setAttribute("aria-current", "page");
      return index ? [make("span", { textContent: "›", ariaHidden: "true" }), button] : [button];
    }));
  };

  const COLUMNS = [
    ["name", "Field", (node) => title(node).toLowerCase()],
    ["size", "Size", (node) => node.size],
    ["share", "Share", (node) => node.size],
    ["count", "Count", (node) => node.count || 0],
    ["chunk", "Chunk", (node) => node.chunk],
  ].filter(([name]) => name !== "chunk" || data.chunked);

  const says = (node, words) => {
    const text = `${node.path} ${node.name || ""} ${node.detail || ""} ${node.type || ""}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = () => {
    const words = wordsOf(query);
    if (!words.length) return [];
    return all.filter((node) => says(node, words)).sort((a, b) => b.size - a.size);
  };

  const row = (node, whole, label) => {
    const leads = canZoom(node) || label !== node.label;
    // A long path is broken behind a dot.
    const broken = label.split(/(?<=\.)/).flatMap((step, index) => (index ? [make("wbr"), step] : [step]));
    const name = leads
      ? make("button", { type: "button", className: "go", onclick: () => zoom(node) }, ...broken)
      : make("span", {}, ...broken);
    const first = make("td", {}, name);
    if (node.name) first.append(" ", node.name);
    const detail = node.detail || (node.guess ? `${node.guess}?` : node.type);
    if (detail) first.append(" ", make("span", { className: "detail", textContent: detail }));
    const bar = make("span", { className: "bar" });
    bar.style.width = `calc((100% - 0.6rem) * ${whole ? Math.min(1, node.size / whole) : 0})`;
    const values = {
      size: make("td", { textContent: size(node.size), title: `${number(node.size)} bytes` }),
      share: make("td", { className: "share", textContent: percent(node.size, root.size) }, bar),
      count: make("td", { textContent: node.count === undefined ? "" : number(node.count) }),
      chunk: make("td", { textContent: node.chunk }),
    };
    const line = make("tr", { className: "row" }, first, ...COLUMNS.slice(1).map(([column]) => values[column]));
    line.onmouseenter = () => hold(node);
    line.onmouseleave = () => hold(null);
    return line;
  };

  // The largest of what is further down than the fields and members of the view.
  const below = (wanted) => {
    const found = [];
    const add = (node) => {
      for (const part of [...node.fields, ...node.members]) {
        if (node !== view && wanted(part)) found.push(part);
        if (part.fields && !part.member) add(part);
      }
    };
    add(view);
    return found.filter((node) => !node.rest).sort((a, b) => b.size - a.size).slice(0, MOST_BELOW);
  };

  const sorted = (nodes) => {
    const value = COLUMNS.find(([name]) => name === order.by)[2];
    const sign = order.down ? -1 : 1;
    const last = (node) => (node.rest ? 1 : 0);
    const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    return [...nodes].sort((a, b) => last(a) - last(b) || sign * compare(value(a), value(b)) || b.size - a.size);
  };

  const table = () => {
    at("head").replaceChildren(...COLUMNS.map(([name, label]) => {
      const press = () => { order = { by: name, down: order.by === name ? !order.down : name !== "name" }; table(); };
      const head = make("th", { scope: "col" }, make("button", { type: "button", textContent: label, onclick: press }));
      if (order.by === name) head.ariaSort = order.down ? "descending" : "ascending";
      return head;
    }));
    const rows = [];
    const section = (name, nodes, label = (node) => node.label) => {
      if (!nodes.length) return;
      if (name) rows.push(make("tr", {}, make("th", { colSpan: COLUMNS.length, scope: "colgroup", textContent: name })));
      rows.push(...sorted(nodes).slice(0, MOST_ROWS).map((node) => row(node, query ? root.size : view.size, label(node))));
    };
    if (query) {
      const found = matches();
      at("caption").textContent = `Found: ${query}`;
      section("", found, (node) => node.path || node.label);
      const more = found.length > MOST_ROWS ? `, the ${number(MOST_ROWS)} largest listed` : "";
      at("status").textContent = found.length ? `${number(found.length)} found${more}` : "nothing found";
    } else {
      at("caption").textContent = `${view.path || view.label}: ${size(view.size)}`;
      section(view.members.length ? "Largest members" : "", view.members);
      section(view.members.length ? "Fields" : "", view.fields);
      const fromHere = (node) => (view.path && node.path.startsWith(`${view.path}.`) ? node.path.slice(view.path.length + 1) : node.path);
      section("Largest members below", below((node) => node.member && node.parent.count > 1), (node) => node.path);
      section("Largest values below", below((node) => !node.member && !node.rest && !node.fields.length), fromHere);
      at("status").textContent = "";
    }
    at("rows").replaceChildren(...rows);
  };

  // Marks what was searched for, and the way to it.
  const highlight = () => {
    const found = new Set(query ? matches() : []);
    // What is drawn in a member is found there as well.
    const words = wordsOf(query);
    if (words.length) for (const { node } of cells) if (!node.rest && says(node, words)) found.add(node);
    const ways = new Set();
    for (const node of found) for (let above = node.parent; above; above = above.parent) ways.add(above);
    const isBelow = (node) => { for (let above = node.parent; above; above = above.parent) if (found.has(above)) return true; return false; };
    map.classList.toggle("searching", Boolean(query));
    for (const { node, element } of cells) {
      element.classList.toggle("hit", found.has(node));
      element.classList.toggle("way", ways.has(node) || isBelow(node));
    }
  };

  const hold = (node) => { for (const cell of cells) cell.element.classList.toggle("held", cell.node === node); };

  const show = () => { tip.hidden = true; crumbs(); draw(); table(); };

  const zoom = (node, remember = true) => {
    const target = canZoom(node) || !node.parent ? node : node.parent;
    const from = view;
    view = target;
    if (query) { query = ""; at("search").value = ""; }
    show();
    if (remember) location.hash = target === root ? "" : encodeURIComponent(target.path);
    if (map.contains(document.activeElement) || document.activeElement === document.body) focusOn(from);
  };
  const focusOn = (node) => {
    const cell = cells.find((cell) => cell.node === node) || cells[0];
    if (cell) step(cell);
  };
  const step = (cell) => {
    for (const other of cells) other.element.tabIndex = other === cell ? 0 : -1;
    cell.element.focus({ preventScroll: true });
  };

  const describe = (node) => {
    const facts = [
      ["size", `${size(node.size)}${node.size >= 1024 ? ` (${number(node.size)} bytes)` : ""}`],
      ["share", `${percent(node.size, root.size)}${node.parent && node.parent !== root ? `, ${percent(node.size, node.parent.size)} of ${node.parent.label}` : ""}`],
      ["count", node.count === undefined ? "" : number(node.count)],
      ["own", node.own === undefined || !node.fields || !node.fields.length ? "" : size(node.own)],
      ["type", node.guess ? `${node.guess}?` : node.type],
      ["is", node.detail],
      ["chunk", node.chunk],
    ];
    const list = make("dl");
    for (const [name, fact] of facts) if (fact) list.append(make("dt", { textContent: name }), make("dd", { textContent: fact }));
    const place = node.rest ? `${node.path ? `${node.path} ` : ""}${node.label}` : node.path || node.label;
    tip.replaceChildren(make("strong", { textContent: node.name || place }));
    if (node.name) tip.append(make("span", { textContent: place }));
    tip.append(list);
  };
  const tipAt = (x, y) => {
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = x + 14 + width > innerWidth ? x - width - 10 : x + 14;
    const top = y + 14 + height > innerHeight ? y - height - 10 : y + 14;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  };
  const cellOf = (target) => {
    const element = target.closest ? target.closest(".cell") : null;
    return element && cells.find((cell) => cell.element === element);
  };

  map.addEventListener("mousemove", (event) => {
    const cell = cellOf(event.target);
    if (!cell) { tip.hidden = true; return; }
    describe(cell.node);
    tipAt(event.clientX, event.clientY);
  });
  map.addEventListener("mouseleave", () => { tip.hidden = true; });
  map.addEventListener("focusin", (event) => {
    const cell = cellOf(event.target);
    if (!cell || !cell.element.matches(":focus-visible")) return;
    describe(cell.node);
    const box = cell.element.getBoundingClientRect();
    tipAt(box.left + Math.min(40, box.width / 2), box.top + Math.min(box.height, 24));
  });
  map.addEventListener("focusout", () => { tip.hidden = true; });
  map.addEventListener("click", (event) => {
    const cell = cellOf(event.target);
    if (!cell) return;
    // Of what lies under the pointer the outermost is zoomed to, so that every click goes one level down.
    let outer = cell;
    if (event.detail > 0) while (outer.above) outer = outer.above;
    let target = outer.node;
    // A chain of messages that hold one thing only is one level.
    while (event.detail > 0 && canZoom(target) && parts(target).filter((part) => !part.rest).length === 1 && outer.below.length && outer !== cell) {
      const next = outer.below.find((below) => !below.node.rest);
      if (!next || !canZoom(next.node)) break;
      [outer, target] = [next, next.node];
    }
    if (canZoom(target)) zoom(target);
  });
  map.addEventListener("keydown", (event) => {
    const cell = cellOf(event.target);
    if (!cell) return;
    const siblings = cell.above ? cell.above.below : cells.filter((other) => other.depth === 0);
    const index = siblings.indexOf(cell);
    const to = {
      ArrowRight: siblings[index + 1], ArrowLeft: siblings[index - 1],
      ArrowDown: cell.below[0], ArrowUp: cell.above, Home: siblings[0], End: siblings[siblings.length - 1],
    };
    if (!(event.key in to)) return;
    event.preventDefault();
    if (to[event.key]) step(to[event.key]);
  });

  const search = at("search");
  let waiting = 0;
  const look = () => { clearTimeout(waiting); query = search.value.trim(); table(); highlight(); };
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(look, 80); });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      // Else it would press the cell that gets the focus.
      event.preventDefault();
      look();
      const [first] = matches();
      if (first) { zoom(first.member ? first.parent : first); step(cells.find((cell) => cell.node === first) || cells[0]); }
    } else if (event.key === "Escape") {
      search.value = "";
      look();
      event.stopPropagation();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const typing = event.target instanceof HTMLInputElement && event.target.type === "search";
    if (event.key === "/" && !typing) { event.preventDefault(); search.focus(); search.select(); }
    if ((event.key === "Escape" || event.key === "Backspace") && !typing && view.parent) { event.preventDefault(); zoom(view.parent); }
  });
  at("mode").addEventListener("change", (event) => { mode = event.target.value; draw(); });
  addEventListener("hashchange", () => {
    let path = "";
    try { path = decodeURIComponent(location.hash.slice(1)); } catch { /* Typed by hand, and no path. */ }
    const node = (path ? nodeAt(path) : root) || view;
    if (node.path !== view.path) zoom(node, false);
  });
  new ResizeObserver(() => { const held = cells.find((cell) => cell.element === document.activeElement); draw(); if (held) focusOn(held.node); }).observe(map);

  // The folder tells one saved_model.pb from another; all of a long path would be the largest text of the page.
  const short = data.file.split("/").slice(-2).join("/");
  at("file").textContent = short;
  at("file").title = data.file;
  const path = short === data.file ? "" : data.file;
  at("about").textContent = [data.message, size(root.size), root.path && `at ${root.path}`, path].filter(Boolean).join(" · ");
  const legend = [["bytes", "bytes"], ["text", "text"], ["number", "numbers"], ["message", "messages"], ["member", "members"], ["rest", "the rest"]];
  at("legend").replaceChildren(...legend.map(([kind, label]) => make("li", {}, make("span", { className: `key ${kind}` }), label)));
  const wanted = (() => { try { return nodeAt(decodeURIComponent(location.hash.slice(1))); } catch { return undefined; } })();
  if (location.hash.length > 1 && wanted && canZoom(wanted)) view = wanted;
  show();
})();
