// Keys go to the console at once, also before the first click; its socket must be open to be told of it.
addEventListener("load", () => {
  const timer = setInterval(() => {
    if (document.body.classList.contains("-first-byte")) {
      clearInterval(timer);
      document.querySelector(".xterm-helper-textarea").focus();
    }
  }, 50);
});
