import os, signal
token, process = sys.argv[2], int(sys.argv[3])

with Browser(sys.argv[1]) as browser:
    tab = browser.tab()
    tab.forgiven = ["/healthz", "503", "ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING"]
    tab.open("/")
    tab.type("#token", token)
    tab.press("Enter")
    tab.sees("does not answer")
    for key in "edtrba":
        tab.press("g"), tab.press(key)
        tab.until("document.querySelector('#page [role=alert]').textContent.length > 10", f"why g {key} shows nothing")
    os.kill(process, signal.SIGKILL)
    tab.sees("The server cannot be reached.")
    tab.sees("Not connected")
    tab.harmless()
