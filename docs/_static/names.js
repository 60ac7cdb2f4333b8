// Lets names break at capitals, dots and underscores where a line is too short for them.
document.addEventListener("DOMContentLoaded", () => {
  const places = "h1, dt.sig .sig-name, code .pre, .bd-links a, .page-toc a, .prev-next-title";
  for (const element of document.querySelectorAll(places)) {
    for (const node of [...element.childNodes]) {
      if (node.nodeType !== Node.TEXT_NODE) continue;
      const parts = node.data.split(/(?<=[a-z])(?=[A-Z])|(?<=[._])(?=\w)/);
      if (parts.length === 1) continue;
      node.replaceWith(...parts.flatMap((part, i) => (i ? [document.createElement("wbr"), part] : [part])));
    }
  }
});
