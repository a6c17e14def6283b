"use strict";

function element(tag, text, ...children) {
  const made = document.createElement(tag);
  if (text !== null) made.textContent = text;
  made.append(...children);
  return made;
}

function operation(path, method, told) {
  const section = element("section", null, element("h2", null, element("b", method.toUpperCase()), element("code", path)));
  section.append(element("p", told.summary));
  const table = element("table", null);
  for (const one of told.parameters ?? []) {
    const name = element("td", null, element("code", one.name));
    table.append(element("tr", null, name, element("td", one.in), element("td", one.description ?? "")));
  }
  for (const [code, answer] of Object.entries(told.responses)) {
    table.append(element("tr", null, element("td", null, element("code", code)), element("td", "answer"), element("td", answer.description)));
  }
  section.append(table);
  for (const [kind, body] of Object.entries(told.requestBody?.content ?? {})) {
    const details = element("details", null, element("summary", `body: ${kind}`));
    if (Object.keys(body.schema).length) details.append(element("pre", JSON.stringify(body.schema, null, 2)));
    section.append(details);
  }
  return section;
}

fetch("/openapi.json").then((answer) => answer.json()).then((told) => {
  const paths = document.getElementById("paths");
  paths.replaceChildren();
  for (const [path, methods] of Object.entries(told.paths)) {
    for (const [method, one] of Object.entries(methods)) paths.append(operation(path, method, one));
  }
}).catch((error) => { document.getElementById("paths").textContent = String(error); });
