/* SPDX-License-Identifier: Apache-2.0
   One bottleneck and one data object at a time, and arrow keys. The page is whole without this. No backslash and no less-than sign here. */
(function () {
  'use strict';
  /* Articles that the links of a table lead to, in its order. */
  function lead(articles, picks) {
    var objects = Array.from(document.querySelectorAll(articles)), links = Array.from(document.querySelectorAll(picks));
    var said = document.getElementById('said'), now = -1, step = '';
    if (!objects.length) return;

    function infoOf(index) { return index >= 0 ? objects[index].querySelector('.info') : null; }
    function showOwnLines(article) {
      var pane = article.querySelector('.src'), line = article.querySelector('.own') || article.querySelector('.in');
      if (pane) pane.scrollTop = line ? Math.max(0, line.offsetTop - 90) : 0;
    }
    function show(index) {
      var before = infoOf(now), after = infoOf(index);
      objects.forEach(function (o, i) { o.classList.toggle('on', i === index); });
      links.forEach(function (a, i) {
        a.closest('tr').classList.toggle('on', i === index);
        if (i === index) a.setAttribute('aria-current', 'true'); else a.removeAttribute('aria-current');
      });
      if (before && after) after.open = before.open;
      now = index;
      showOwnLines(objects[index]);
    }
    function follow() {
      var index = objects.findIndex(function (o) { return '#' + o.id === location.hash; });
      if (index === -1) return;
      show(index);
      objects[index].scrollIntoView();
      var title = objects[index].querySelector('h3'), again = step && objects[index].querySelector('a[rel=' + step + ']');
      (again || title).focus({ preventScroll: true });
      if (again) said.textContent = title.textContent;
      step = '';
    }
    document.addEventListener('click', function (e) {
      var a = e.target.closest('a[rel]');
      step = a ? a.rel : '';
      var row = e.target.closest('.bars tbody tr'), pick = row && row.querySelector(picks);
      if (pick && !e.target.closest('a')) location.hash = pick.getAttribute('href');
    });
    document.addEventListener('keydown', function (e) {
      if (e.altKey || e.ctrlKey || e.metaKey || e.shiftKey) return;
      var at = links.indexOf(document.activeElement), move = e.key === 'ArrowDown' ? 1 : e.key === 'ArrowUp' ? -1 : 0;
      if (at >= 0) {
        if (!move || !links[at + move]) return;
        links[at + move].focus();
        e.preventDefault();
        return;
      }
      var article = document.activeElement.closest(articles), rel = e.key === 'ArrowRight' ? 'next' : e.key === 'ArrowLeft' ? 'prev' : '';
      if (!article || !rel || document.activeElement.closest('.src')) return;
      var a = article.querySelector('a[rel=' + rel + ']');
      if (a) a.click();
    });
    window.addEventListener('hashchange', follow);
    window.addEventListener('beforeprint', function () { var info = infoOf(now); if (info) info.open = true; });
    show(0);
    follow();
  }
  lead('.obj:not(.d)', '.pick:not(.d)');
  lead('.obj.d', '.pick.d');
}());
