// Sets light or dark before anything is drawn. Not a module: those come too late.
const chosen = localStorage.getItem("theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
