// Browsers refuse workers on pages opened from the file system, and the site's search is one. There, and only there, `Worker`
// becomes a hidden frame that runs the same script: both sides of a frame can post messages as both sides of a worker do.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = [] // messages posted before the frame has its script
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.title = "search"
      frame.addEventListener("load", () => this.start(frame.contentWindow, String(url)), { once: true })
      document.body.append(frame) // an empty document, which shares the origin of this one
    }

    start(inside, url) {
      inside.postMessage = message => this.dispatchEvent(new MessageEvent("message", { data: message }))
      inside.importScripts = (...scripts) => scripts.reduce((before, src) => before.then(() => load(inside, src)), Promise.resolve())
      load(inside, url).then(() => {
        this.postMessage = message => inside.dispatchEvent(new inside.MessageEvent("message", { data: message }))
        this.waiting.forEach(message => this.postMessage(message))
      })
    }

    postMessage(message) {
      this.waiting.push(message)
    }

    terminate() {}
  }

  function load(inside, src) {
    return new Promise((loaded, failed) => {
      const script = inside.document.createElement("script")
      script.addEventListener("load", loaded, { once: true })
      script.addEventListener("error", failed, { once: true })
      script.src = src
      inside.document.body.append(script)
    })
  }
}
