// Conversations in the browser's IndexedDB; where it has none, they live as long as the page.

const NAME = 'linnet', STORE = 'conversations';

function open() {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(NAME, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE, {keyPath: 'id'});
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
    opening.onblocked = () => reject(new Error('blocked'));
  });
}

function finish(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

export class Store {
  // isKept is false where nothing outlives the page.
  static async open() {
    const store = new Store();
    try {
      store.database = await open();
      store.isKept = true;
    } catch {
      store.database = null;
      store.isKept = false;
    }
    return store;
  }

  #objects(mode) {
    return this.database.transaction(STORE, mode).objectStore(STORE);
  }

  async all() {
    return this.isKept ? finish(this.#objects('readonly').getAll()) : [];
  }

  async put(conversation) {
    if (this.isKept) await finish(this.#objects('readwrite').put(conversation));
  }

  async remove(id) {
    if (this.isKept) await finish(this.#objects('readwrite').delete(id));
  }
}
