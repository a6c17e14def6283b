// A click on a picture opens it large, in the same tab: the browser's way back leads to the page.
document.addEventListener("DOMContentLoaded", () => {
  for (const image of document.querySelectorAll("article img")) {
    if (image.closest("a") || image.naturalWidth === 0 && !image.src) continue;
    const link = document.createElement("a");
    link.href = image.src;
    link.title = "Open large";
    link.className = "picture";
    image.replaceWith(link);
    link.append(image);
  }
});
