// Search on pages that are opened as files: a browser starts no worker there, so that the script of
// the search runs in an empty frame, with the two calls of a worker.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      this.waiting = []
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = frame.contentDocument.createElement("script")
      script.src = address
      script.onload = () => {
        this.waiting.forEach(data => this.send(data))
        this.waiting = null
      }
      frame.contentDocument.body.append(script)
    }
    send(data) {
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }))
    }
    postMessage(data) {
      this.waiting ? this.waiting.push(data) : this.send(data)
    }
  }
}
